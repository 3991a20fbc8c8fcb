from dataclasses import replace

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from icefloe.batch.open.claim_batch import claim_batch, record_batch
from icefloe.batch.open.next_batch import NextBatch, find_work, next_batch
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.open.recorded_pipeline import look_at_checkpoint
from icefloe.batch.plan.make_plan import plan_of
from icefloe.checkpoint.records import OffsetRecord
from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import NotAnAncestorError
from support.catalogs import sql_properties
from support.pipelines.workshop import Workshop
from support.tables.events import NAME, SCHEMA, rows


def test_an_open_batch_is_resumed_with_exactly_its_range_although_the_table_moved_on(workshop: Workshop) -> None:
    workshop.append(range(10))
    workshop.deliver()
    workshop.update([1], value=2.0)
    opened = workshop.open()
    workshop.append(range(10, 20))
    workshop.delete([1])
    resumed = workshop.open()
    assert resumed == opened
    resumed.deliver()
    workshop.require_exact(resumed.plan, workshop.changes(1))
    following = workshop.open()
    assert following.plan.spec.after_snapshot_id == opened.plan.spec.up_to_snapshot_id
    assert following.plan.spec.up_to_snapshot_id == workshop.head()
    following.deliver()
    workshop.require_exact(following.plan, workshop.changes(2))


def look(workshop: Workshop) -> NextBatch:
    """The batch that a run would open now."""
    session = workshop.session()
    batch = next_batch(session, look_at_checkpoint(session))
    assert batch is not None
    return batch


def recorded(batch: NextBatch) -> OffsetRecord:
    """The record of a batch that a run has just planned."""
    return record_batch(claim_batch(batch), plan_digest=plan_of(batch).plan.digest)


def test_of_two_runs_that_open_a_batch_at_once_both_work_on_the_first(workshop: Workshop) -> None:
    workshop.append(range(10))
    slow = look(workshop)
    workshop.append(range(10, 20))
    fast = look(workshop)
    first = recorded(fast)
    assert replace(first, plan_digest=None) == fast.offset
    assert recorded(slow) == first


def test_sizes_of_an_open_batch_win_over_edited_ones(workshop: Workshop) -> None:
    workshop.append(range(10))
    batch = look(workshop.set(shuffle={"partitions": 5}))
    recorded(batch)
    workshop.set(shuffle={"partitions": 9})
    opened = workshop.open()
    assert opened.plan.num_partitions == 5
    opened.deliver()
    workshop.append(range(10, 20))
    following = workshop.open()
    assert following.plan.num_partitions == 9


def test_a_table_that_was_dropped_and_created_again_is_refused(workshop: Workshop) -> None:
    workshop.append(range(10))
    workshop.deliver()
    old = workshop.table.metadata.table_uuid
    catalog = SqlCatalog("lab", **sql_properties(workshop.folder))
    catalog.drop_table(f"db.{NAME}")
    new = catalog.create_table(f"db.{NAME}", SCHEMA)
    sentence = f"with uuid {old}, but the table of that name now has uuid {new.metadata.table_uuid}: it was dropped"
    assert work(workshop) == (False, True)
    with pytest.raises(TerminalError, match=sentence):
        workshop.prepare()
    new.append(rows([1]))
    with pytest.raises(TerminalError, match=sentence):
        workshop.prepare()


def test_nothing_new_is_nothing_to_do(workshop: Workshop) -> None:
    assert workshop.prepare().plan is None
    assert work(workshop) == (False, False)
    workshop.append(range(10))
    assert work(workshop) == (False, True)
    workshop.open()
    assert work(workshop) == (True, True)
    workshop.open().deliver()
    assert work(workshop) == (False, False)
    prepared = workshop.prepare()
    assert (prepared.plan, prepared.reference) == (None, None)


def test_a_backfill_has_a_place_of_its_own_that_follows_from_its_range(workshop: Workshop) -> None:
    first = workshop.append(range(10))
    second = workshop.update([1], value=2.0)
    workshop.append([20])
    request = RequestedRange(after_snapshot_id=first, up_to_snapshot_id=second)
    batch = workshop.open(request)
    assert batch.plan.backfill_id is not None
    assert batch.plan.backfill_id.startswith(f"{first}-{second}-")
    assert workshop.open(request) == batch
    report = batch.run_route().commit()
    workshop.require_exact(batch.plan, workshop.changes(backfill_id=batch.plan.backfill_id))
    again = workshop.prepare(request)
    assert (again.report, again.plan) == (report, None)
    assert work(workshop) == (False, True)
    whole = workshop.deliver()
    assert whole is not None
    assert whole.batch.batch_number == 0
    assert (whole.batch.after_snapshot_id, whole.backfill_id) == (None, None)


def test_a_backfill_of_an_empty_range_is_nothing_to_do(workshop: Workshop) -> None:
    head = workshop.append(range(10))
    assert workshop.prepare(RequestedRange(after_snapshot_id=head)).plan is None
    assert workshop.stored_objects() == {}


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
    assert (report.batch.counts["delete"], report.batch.counts["insert"]) == (2, 1)


def test_a_load_goes_on_although_its_branch_has_no_snapshot_any_more(workshop: Workshop) -> None:
    workshop.append([1])
    workshop.append([2])
    workshop.set(max_bytes_per_batch=1).deliver()
    lose_all_snapshots(workshop)
    assert work(workshop) == (False, True)
    report = workshop.deliver()
    assert report is not None
    assert report.batch.counts["insert"] == 1
    assert work(workshop) == (False, False)
    assert workshop.deliver() is None


def work(workshop: Workshop) -> tuple[bool, bool]:
    """True for an open batch, and true for a new snapshot."""
    found = find_work(workshop.session())
    return found.has_open_batch, found.has_new_snapshot
