"""The next batch of a branch that was rolled back, or has no snapshot any more."""

from dataclasses import replace

import pytest

from batch.open.found_work import work
from icefloe.batch.open.next_batch import next_batch
from icefloe.iceberg.history.history import NotAnAncestorError
from icefloe.iceberg.step import StepKind
from support.pipelines.workshop import Workshop
from support.tables.planning_tables import edit_metadata


def test_a_rollback_is_compensated(workshop: Workshop) -> None:
    first = workshop.append(range(10))
    workshop.update([1, 2], value=2.0)
    workshop.append([20, 21])
    workshop.deliver()
    workshop.table.manage_snapshots().rollback_to_snapshot(first).commit()
    workshop.append([30])
    batch = workshop.open()
    assert [step.kind for step in batch.plan.spec.steps] == [StepKind.STATES, StepKind.COMMIT]
    batch.deliver()
    workshop.require_exact(batch.plan, workshop.changes(1))


def test_a_rollback_stops_a_pipeline_that_wants_to_fail(workshop: Workshop) -> None:
    first = workshop.append(range(10))
    second = workshop.append([20, 21])
    workshop.set(on_rollback="fail").deliver()
    workshop.table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert work(workshop) == (False, True)
    with pytest.raises(NotAnAncestorError, match=f"snapshot {second} is not an ancestor of snapshot {first}"):
        workshop.prepare()
    assert workshop.set(on_rollback="compensate").deliver() is not None


def lose_all_snapshots(workshop: Workshop) -> None:
    """The main branch as a table has it that was replaced by an empty one."""
    workshop.table.refresh().manage_snapshots().remove_branch("main").commit()
    workshop.table.refresh()


def test_a_branch_that_has_no_snapshot_any_more_is_waited_for(workshop: Workshop) -> None:
    workshop.append([1, 2])
    workshop.deliver()
    lose_all_snapshots(workshop)
    assert work(workshop) == (False, False)
    assert workshop.deliver() is None
    workshop.append([3])
    assert work(workshop) == (False, True)
    report = workshop.deliver()
    assert report is not None
    assert (report.counts["delete"], report.counts["insert"]) == (2, 1)


def test_a_load_goes_on_although_its_branch_has_no_snapshot_any_more(workshop: Workshop) -> None:
    workshop.append([1])
    workshop.append([2])
    workshop.set(max_bytes_per_batch=1).deliver()
    lose_all_snapshots(workshop)
    assert work(workshop) == (False, True)
    report = workshop.deliver()
    assert report is not None
    assert report.counts["insert"] == 1
    assert work(workshop) == (False, False)
    assert workshop.deliver() is None


def test_a_branch_that_has_no_snapshot_any_more_stops_a_pipeline_that_wants_to_fail(workshop: Workshop) -> None:
    workshop.append([1])
    workshop.set(on_rollback="fail").deliver()
    lose_all_snapshots(workshop)
    assert work(workshop) == (False, True)
    with pytest.raises(NotAnAncestorError, match="the branch has no snapshot any more"):
        workshop.prepare()


def test_a_rollback_that_the_table_has_forgotten_is_taken_back_behind_the_cursor(workshop: Workshop) -> None:
    first = workshop.append(range(10))
    workshop.append([20, 21])
    workshop.deliver()
    table = workshop.table
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    workshop.append([30])
    session = workshop.session()
    edit_metadata(session.table, snapshot_log=session.table.metadata.snapshot_log[-1:], metadata_log=[])
    surroundings = replace(session.surroundings, load_table=lambda *_, **__: session.table)
    found = next_batch(replace(session, surroundings=surroundings))
    assert found is not None
    assert [step.kind for step in found.offset.steps] == [StepKind.STATES, StepKind.COMMIT]
