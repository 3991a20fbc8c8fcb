import pytest
from pyiceberg.table import Table

from icefloe.batch.open.next_batch import find_work
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.flow import Route
from icefloe.iceberg.history.history import ExpiredHistoryError
from icefloe.iceberg.step import StepKind
from support.pipelines.workshop import Workshop


def expire(table: Table, *snapshot_ids: int) -> None:
    table.refresh().maintenance.expire_snapshots().by_ids(list(snapshot_ids)).commit()


def test_from_now_delivers_nothing_of_what_is_there(workshop: Workshop) -> None:
    workshop.set(initial_load="from_now").append(range(10))
    report = workshop.deliver()
    assert report is not None
    assert (report.route, report.batch.steps, sum(report.batch.counts.values())) == (Route.NOTHING_TO_DO, 0, 0)
    assert report.batch.up_to_snapshot_id == workshop.head()
    assert workshop.deliver() is None
    workshop.update([1], value=2.0)
    batch = workshop.open()
    batch.deliver()
    workshop.require_exact(batch.plan, workshop.changes(1))


def test_from_now_on_an_empty_table_delivers_everything_that_comes(workshop: Workshop) -> None:
    workshop.set(initial_load="from_now")
    report = workshop.deliver()
    assert report is not None
    assert report.batch.up_to_snapshot_id is None
    assert workshop.deliver() is None
    workshop.append(range(10))
    workshop.update([1], value=2.0)
    batch = workshop.open()
    assert [step.kind for step in batch.plan.spec.steps] == [StepKind.COMMIT, StepKind.COMMIT]
    batch.deliver()
    workshop.require_exact(batch.plan, workshop.changes(1))


def test_from_earliest_begins_with_the_state_of_the_oldest_snapshot_left(workshop: Workshop) -> None:
    first = workshop.set(initial_load="from_earliest").append(range(10))
    workshop.append(range(10, 15))
    workshop.delete([3])
    expire(workshop.table, first)
    batch = workshop.open()
    assert [step.kind for step in batch.plan.spec.steps] == [StepKind.INITIAL, StepKind.COMMIT]
    batch.deliver()
    workshop.require_exact(batch.plan, workshop.changes(0))


def test_a_cursor_in_expired_history_stops_and_says_what_to_set(workshop: Workshop) -> None:
    first = workshop.append(range(10))
    workshop.deliver()
    second = workshop.append([20])
    third = workshop.append([21])
    expire(workshop.table, first, second)
    sentence = rf"since snapshot {first}: .* the oldest is {third} .*; set on_gap: reload to deliver"
    with pytest.raises(ExpiredHistoryError, match=sentence):
        workshop.prepare()
    assert workshop.session().checkpoint.look().opened is None


def test_a_reload_delivers_every_row_again_and_says_so(workshop: Workshop) -> None:
    first = workshop.append(range(10))
    workshop.deliver()
    second = workshop.delete([1])
    workshop.append([20])
    expire(workshop.table, first, second)
    batch = workshop.set(on_gap="reload").open()
    assert [step.kind for step in batch.plan.spec.steps] == [StepKind.INITIAL]
    assert batch.plan.spec.after_snapshot_id is None
    report = batch.deliver()
    assert report.batch.counts == {"insert": 10, "delete": 0, "update_before": 0, "update_after": 0}
    [warning] = report.warnings
    assert f"since snapshot {first}" in warning
    assert "rows deleted since are not delivered as DELETE" in warning
    workshop.require_exact(batch.plan, workshop.changes(1))
    workshop.update([20], value=2.0)
    following = workshop.open()
    assert following.plan.spec.after_snapshot_id == report.batch.up_to_snapshot_id
    following.deliver()
    workshop.require_exact(following.plan, workshop.changes(2))


def test_a_cursor_that_expired_while_its_child_is_there_is_no_gap(workshop: Workshop) -> None:
    first = workshop.append(range(10))
    workshop.deliver()
    workshop.append([20])
    assert workshop.table.refresh().metadata.snapshots[-1].parent_snapshot_id == first
    batch = workshop.open()
    batch.deliver()
    assert workshop.changes(1)["id"].to_pylist() == [20]


@pytest.mark.parametrize("initial_load", ["full", "from_earliest", "from_now"])
def test_a_tag_is_a_state_and_each_of_its_moves_one_step(workshop: Workshop, initial_load: str) -> None:
    workshop.append(range(10))
    workshop.update([1, 2], value=2.0)
    tag(workshop)
    report = workshop.set(branch="release", initial_load=initial_load, max_steps_per_batch=1).deliver()
    assert report is not None
    assert report.batch.counts["insert"] == (0 if initial_load == "from_now" else 10)
    for number in range(3):
        workshop.update([number], value=3.0)
    assert workshop.deliver() is None
    tag(workshop)
    forward = workshop.open()
    assert [step.kind for step in forward.plan.spec.steps] == [StepKind.STATES]
    assert forward.deliver().batch.counts == {"insert": 0, "delete": 0, "update_before": 3, "update_after": 3}
    workshop.require_exact(forward.plan, workshop.changes(1))
    tag(workshop, workshop.snapshot_ids()[0])
    back = workshop.open()
    back.deliver()
    workshop.require_exact(back.plan, workshop.changes(2))
    assert verify_batches(workshop.session()).is_equal


def tag(workshop: Workshop, snapshot_id: int | None = None) -> None:
    """Point the tag to a snapshot, or to the head."""
    changes = workshop.table.refresh().manage_snapshots()
    if "release" in workshop.table.metadata.refs:
        changes = changes.remove_tag("release")
    changes.create_tag(snapshot_id or workshop.head(), "release").commit()


@pytest.mark.parametrize("initial_load", ["from_now", "from_earliest"])
def test_a_pipeline_far_behind_catches_up_in_several_batches(workshop: Workshop, initial_load: str) -> None:
    workshop.set(initial_load=initial_load, max_steps_per_batch=3)
    if initial_load == "from_now":
        workshop.deliver()
    for start in range(0, 80, 10):
        workshop.append(range(start, start + 10))
    steps = []
    while find_work(workshop.session()).is_due:
        batch = workshop.open()
        steps.append(len(batch.plan.spec.steps))
        report = batch.deliver()
        workshop.require_exact(batch.plan, workshop.changes(report.batch.batch_number))
    assert steps == [3, 3, 2]
    assert verify_batches(workshop.session()).is_equal


def test_a_backfill_is_one_batch_whatever_the_bounds(workshop: Workshop) -> None:
    workshop.set(max_steps_per_batch=1, max_bytes_per_batch=1)
    for start in range(0, 30, 10):
        workshop.append(range(start, start + 10))
    assert len(workshop.open(RequestedRange()).plan.spec.steps) == 3
