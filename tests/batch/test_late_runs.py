"""Runs that come too late: they end well, leave nothing behind, and what an operator edits counts at the next try."""

import shutil
from dataclasses import replace
from typing import Any

import pytest

from icefloe.batch.context.already_finished import BatchFinished, ends_well_if_finished
from icefloe.batch.context.batch_folder import load_plan
from icefloe.batch.context.running_batch import BatchCommittedError, RunningBatch
from icefloe.batch.deliver import commit_batch as commit
from icefloe.batch.deliver.commit_batch import clean_up_finished
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.open.claim_batch import claim_batch, record_batch
from icefloe.batch.open.next_batch import NextBatch, next_batch
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.open.recorded_pipeline import pipeline_record
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.batch.plan_document import Plan
from icefloe.batch.status.publish_status import publish_status
from icefloe.batch.upkeep.cursor_moves import PipelineReset
from icefloe.checkpoint.batch_spec import Identity
from icefloe.checkpoint.ownership import OtherOwnerError
from icefloe.checkpoint.records import OffsetRecord, Writer
from icefloe.errors import TerminalError
from icefloe.flow import Phase
from icefloe.storage.store import Store
from support.pipelines.leftovers import left_in_shuffle
from support.pipelines.workshop import OpenBatch, Workshop


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    workshop.append(range(20))
    workshop.deliver()
    workshop.update([1], value=2.0)
    return workshop.open()


def with_plan(batch: OpenBatch, plan: Plan) -> RunningBatch:
    running = batch.running
    return replace(running, folder=replace(running.folder, plan=plan))


def test_a_map_task_that_goes_on_after_cleanup_takes_back_what_it_writes(workshop: Workshop, batch: OpenBatch) -> None:
    late, inputs = batch.running, batch.inputs
    store = late.folder.store
    documents = {stored.key: store.get(stored.key) for stored in store.list("tasks")}
    with late.fenced():
        batch.deliver()
        # Past its first look at the checkpoint it writes whatever it has to write.
        for key, data in documents.items():
            store.put(key, data)
        write_map_output(replace(inputs, folder=late.folder), 0)
        assert left_in_shuffle(workshop.storage)
    with pytest.raises(BatchCommittedError), late.fenced():
        write_map_output(inputs, 0)
    assert left_in_shuffle(workshop.storage) == []


def test_an_error_of_a_run_whose_batch_is_finished_is_no_error(batch: OpenBatch) -> None:
    with pytest.raises(TerminalError, match="no news"), ends_well_if_finished(batch.reference):
        raise TerminalError("no news")
    batch.deliver()
    with pytest.raises(BatchFinished), ends_well_if_finished(batch.reference):
        batch.run(Phase.SHUFFLE_WRITE)


def test_raising_no_error_for_wrong_summaries_helps_the_batch_that_failed(workshop: Workshop, batch: OpenBatch) -> None:
    batch.run_route()
    plan = batch.plan
    wrong = replace(plan, summary_row_deltas=tuple(7 for _ in plan.summary_row_deltas))
    with pytest.raises(TerminalError, match="set on_summary_mismatch: warn"):
        commit.commit_batch(with_plan(batch, wrong))
    helped = workshop.set(on_summary_mismatch="warn").open()
    assert helped.plan == plan
    report = commit.commit_batch(with_plan(helped, wrong))
    assert "says that it changed the number of rows by 7" in report.warnings[-1]


def test_memory_that_is_raised_helps_the_batch_that_died_of_it(workshop: Workshop, batch: OpenBatch) -> None:
    assert batch.settings.memory_bytes == 2**30
    again = workshop.set(shuffle={"memory_bytes": "2GiB"}).open()
    assert again.plan == batch.plan
    assert again.settings.memory_bytes == 2 * 2**30


def test_status_and_offset_name_owner_and_run(workshop: Workshop) -> None:
    workshop.append([1])
    session = replace(workshop.session(), writer=Writer(owner="us", run="run 1"))
    open_and_plan(session)
    status = publish_status(session, phase="plan")
    assert status is not None
    assert (status.owner, status.open_run) == ("us", "run 1")
    opened = session.checkpoint.look().opened
    assert opened is not None
    assert opened.opened_by == session.writer


def test_cleanup_needs_no_plan_because_a_late_plan_may_have_taken_it_back(workshop: Workshop, batch: OpenBatch) -> None:
    batch.run_route().commit()
    batch.store.delete(["plan.json"])
    assert clean_up_finished(batch.reference) > 5
    assert left_in_shuffle(workshop.storage) == []


def test_cleanup_of_an_open_batch_is_refused(batch: OpenBatch) -> None:
    with pytest.raises(TerminalError, match="batch 1 is not committed: its files are kept for the rerun"):
        clean_up_finished(batch.reference)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("takes_over", [False, True])
def test_a_checkpoint_that_lost_its_owners_goes_on_with_its_id(
    workshop: Workshop, is_open: bool, takes_over: bool
) -> None:
    workshop.append(range(10))
    workshop.deliver()
    checkpoint = workshop.folder / "storage/checkpoints/events"
    checkpoint_id = workshop.session().checkpoint.look().checkpoint_id
    workshop.append([20])
    if is_open:
        workshop.open()
    shutil.rmtree(checkpoint / "owners")
    prepared = open_and_plan(replace(workshop.session(), writer=Writer(owner="us"), takes_over=takes_over))
    assert prepared.plan is not None
    assert prepared.plan.checkpoint_id == checkpoint_id
    assert workshop.session().checkpoint.look().checkpoint_id == checkpoint_id


def test_a_run_of_an_earlier_life_of_the_checkpoint_cannot_commit_in_the_new_one(workshop: Workshop) -> None:
    workshop.append(range(10))
    earlier = workshop.open()
    shutil.rmtree(workshop.folder / "storage/checkpoints")
    again = workshop.set(sink={"type": "files", "path": f"file://{workshop.folder}/anew"}).open()
    with pytest.raises(TerminalError, match="the checkpoint was deleted and made again meanwhile"):
        earlier.run_route().commit()
    assert again.deliver().counts["insert"] == 10


def test_a_first_batch_is_planned_with_the_identity_that_another_run_recorded(workshop: Workshop) -> None:
    workshop.append(range(10))
    slow = workshop.set(identifier_columns=None).session()
    batch = next_batch(slow)
    assert batch is not None
    identity = Identity(policy="table", columns=("id",), field_ids=(1,))
    slow.checkpoint.claim_for(Writer(), new_id=batch.offset.checkpoint_id)
    slow.checkpoint.create_pipeline(pipeline_record(slow, identity, checkpoint_id=str(batch.offset.checkpoint_id)))
    claimed = claim_batch(batch)
    offset = record_batch(claimed, plan_digest="the digest of that plan")
    assert (offset.spec.identity, offset.plan_digest) == (identity, "the digest of that plan")
    assert claimed.offset.spec == offset.spec


def test_a_backfill_belongs_to_the_owner_of_its_pipeline(workshop: Workshop) -> None:
    head = workshop.append(range(10))
    ours = replace(workshop.session(), writer=Writer(owner="us"))
    open_and_plan(ours)
    theirs = replace(workshop.session(), writer=Writer(owner="them"))
    with pytest.raises(OtherOwnerError, match="belongs to owner us"):
        open_and_plan(theirs, RequestedRange(up_to_snapshot_id=head))
    assert open_and_plan(ours, RequestedRange(up_to_snapshot_id=head)).plan is not None


def test_a_backfill_without_an_end_goes_on_with_its_range_although_the_table_moved_on(workshop: Workshop) -> None:
    request = RequestedRange(after_snapshot_id=workshop.append(range(10)))
    workshop.append([10])
    first = open_and_plan(workshop.session(), request)
    workshop.append([11])
    again = open_and_plan(workshop.session(), request)
    assert (again.plan, again.is_resumed) == (first.plan, True)


def test_a_backfill_whose_plan_goes_as_another_run_finishes_it_is_done(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = RequestedRange(up_to_snapshot_id=workshop.append(range(10)))
    other = workshop.open(request)

    def overtaken(store: Store) -> Plan:
        monkeypatch.undo()
        other.deliver()
        return load_plan(store)

    monkeypatch.setattr("icefloe.batch.plan.plan_of_batch.load_plan", overtaken)
    found = open_and_plan(workshop.session(), request)
    assert found.report is not None
    assert found.plan is None


def test_a_run_whose_number_goes_to_a_reset_leaves_the_reset_as_it_is(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.append(range(10))
    workshop.deliver()
    workshop.append([11])
    reset = PipelineReset.plan(workshop.session())
    assert reset is not None

    def overtaken(batch: NextBatch, **options: Any) -> OffsetRecord:
        monkeypatch.undo()
        # Killed right after its record.
        batch.session.checkpoint.create_offset(replace(reset.offset, checkpoint_id=batch.offset.checkpoint_id))
        return record_batch(batch, **options)

    monkeypatch.setattr("icefloe.batch.plan.open_and_plan.record_batch", overtaken)
    found = open_and_plan(workshop.session()).plan
    ended = workshop.session().checkpoint.committed(1)
    assert ended is not None
    assert ended.outcome == "reset"
    assert found is not None
    assert (found.batch_number, found.input_rows) == (2, 11)
