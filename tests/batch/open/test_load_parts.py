from collections import Counter

import pytest
from pyiceberg.table import Table

from icefloe.batch.open.next_batch import find_work
from icefloe.batch.report import BatchReport
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import ExpiredHistoryError
from icefloe.iceberg.step import LoadPart, StepKind
from support.pipelines.workshop import Workshop
from support.spark.row_counts import weights_of
from support.tables.compactions import compact


@pytest.fixture
def loaded(workshop: Workshop) -> Workshop:
    """A table of four files and a pipeline whose batches take about two of them."""
    for start in range(0, 40, 10):
        workshop.append(range(start, start + 10))
    size = max(file.file.file_size_in_bytes for file in workshop.table.scan().plan_files())
    return workshop.set(max_bytes_per_batch=2 * size)


def part(workshop: Workshop, batch_number: int) -> LoadPart | None:
    commit = workshop.session().checkpoint.committed(batch_number)
    assert commit is not None
    return commit.load_part


def deliver_all(workshop: Workshop) -> list[BatchReport]:
    reports = []
    while find_work(workshop.session()).is_due:
        reports.append(workshop.open().deliver())
    return reports


def expire(table: Table, *snapshot_ids: int) -> None:
    table.refresh().maintenance.expire_snapshots().by_ids(list(snapshot_ids)).commit()


def test_a_large_load_takes_several_batches_of_one_snapshot_and_misses_and_doubles_nothing(loaded: Workshop) -> None:
    pinned = loaded.head()
    first = loaded.open()
    assert [step.kind for step in first.plan.spec.steps] == [StepKind.INITIAL]
    assert first.deliver().batch.counts["insert"] == 20
    loaded.update(range(5, 15), value=2.0)
    loaded.append([100])
    second = loaded.deliver()
    assert second is not None
    assert [part(loaded, number) for number in (0, 1)] == [
        LoadPart(first_file=0, stop_file=2, num_files=4),
        LoadPart(first_file=2, stop_file=4, num_files=4),
    ]
    assert (first.plan.spec.after_snapshot_id, first.plan.spec.up_to_snapshot_id) == (None, pinned)
    assert (second.batch.after_snapshot_id, second.batch.up_to_snapshot_id) == (pinned, pinned)
    delivered = weights_of(loaded.changes(0)) + weights_of(loaded.changes(1))
    assert delivered == loaded.state(pinned)
    while find_work(loaded.session()).is_due:
        following = loaded.open()
        report = following.deliver()
        loaded.require_exact(following.plan, loaded.changes(report.batch.batch_number))
    assert report.batch.up_to_snapshot_id == loaded.head()
    assert verify_batches(loaded.session()).is_equal


@pytest.mark.parametrize(("max_bytes", "batches"), [(1, 4), (2**40, 1)])
def test_a_batch_of_a_load_takes_one_file_at_least_and_no_more_batches_than_needed(
    loaded: Workshop, max_bytes: int, batches: int
) -> None:
    reports = deliver_all(loaded.set(max_bytes_per_batch=max_bytes))
    assert len(reports) == batches
    assert sum((weights_of(loaded.changes(each.batch.batch_number)) for each in reports), Counter()) == loaded.state(
        loaded.head()
    )
    assert verify_batches(loaded.session()).is_equal


def test_a_snapshot_that_expires_while_it_is_loaded_is_a_gap(loaded: Workshop) -> None:
    pinned = loaded.head()
    loaded.deliver()
    loaded.replace(loaded.table.scan().to_arrow().slice(0, 30))
    expire(loaded.table, pinned)
    with pytest.raises(ExpiredHistoryError, match=r"delivered 2 of 4 files of snapshot \d+, which has expired.*reload"):
        loaded.deliver()
    [second] = deliver_all(loaded.set(on_gap="reload"))
    assert (second.batch.after_snapshot_id, second.batch.counts["insert"]) == (None, 30)
    assert verify_batches(loaded.session()).is_equal


def test_a_rerun_of_an_open_part_reads_the_same_files_whatever_the_bound_is_now(loaded: Workshop) -> None:
    before = loaded.open().plan
    again = loaded.set(max_bytes_per_batch=1).open()
    assert again.plan.spec == before.spec
    again.deliver()
    assert part(loaded, 0) == LoadPart(first_file=0, stop_file=2, num_files=4)


def test_manifests_that_list_other_files_than_the_load_was_cut_for_stop_it(loaded: Workshop) -> None:
    loaded.deliver()
    session = loaded.session()
    key = next(path for path in (loaded.folder / "storage").rglob("commits/0.json"))
    key.write_text(
        key.read_text().replace('"num_files": 4', '"num_files": 5').replace('"num_files":4', '"num_files":5')
    )
    assert session.checkpoint.committed(0) is not None
    with pytest.raises(TerminalError, match="cut for 5 data files, but its manifests list 4"):
        loaded.deliver()


def test_the_parts_of_a_load_end_at_its_snapshot_though_a_compaction_follows(loaded: Workshop) -> None:
    expire(loaded.table, *(each.snapshot_id for each in loaded.table.snapshots()[:-1]))
    compact(loaded.table)
    loaded.append([100])
    loaded.set(initial_load="from_earliest")
    delivered = deliver_all(loaded)
    assert [each.batch.rows for each in delivered] == [20, 20, 1]
    assert sum((weights_of(loaded.changes(number)) for number in range(3)), Counter()) == loaded.state(loaded.head())
