"""Runs that come too late: they end well, leave nothing behind, and what an operator edits counts at the next try."""

from dataclasses import replace

import pytest

from batch.workshop import OpenBatch, Workshop
from icefloe.audit.sums import AuditError
from icefloe.batch.finished import BatchFinished, ends_well_if_finished
from icefloe.batch.phases import Phase, run_phase
from icefloe.batch.write_map_output import write_map_output
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    workshop.append(range(20))
    workshop.deliver()
    workshop.update([1], value=2.0)
    return workshop.open()


def left_in_shuffle(workshop: Workshop) -> list[str]:
    return [path for path in workshop.stored_objects() if "/shuffle/events/" in path]


def test_a_map_task_that_goes_on_after_cleanup_takes_back_what_it_writes(workshop: Workshop, batch: OpenBatch) -> None:
    late = batch.context
    late.map_task(0)
    documents = {found.key: late.store.get(found.key) for found in late.store.list("tasks")}
    batch.deliver()
    with pytest.raises(TerminalError), late.fenced():
        write_map_output(late, 0)
    # Past its first look at the checkpoint it writes whatever it has to write.
    with late.fenced():
        for key, data in documents.items():
            late.store.put(key, data)
    assert left_in_shuffle(workshop) == []


def test_an_error_of_a_run_whose_batch_is_finished_is_no_error(batch: OpenBatch) -> None:
    with pytest.raises(TerminalError, match="no news"), ends_well_if_finished(batch.reference):
        raise TerminalError("no news")
    batch.deliver()
    with pytest.raises(BatchFinished), ends_well_if_finished(batch.reference):
        run_phase(Phase.SHUFFLE_WRITE, batch.reference, engine=None)  # type: ignore[arg-type]


def test_raising_no_error_for_wrong_summaries_helps_the_batch_that_failed(workshop: Workshop, batch: OpenBatch) -> None:
    batch.run_route()
    plan = batch.plan
    wrong = replace(batch.context.plan, summary_row_deltas=tuple(7 for _ in plan.summary_row_deltas))
    from icefloe.batch import commit

    with pytest.raises(AuditError, match="set on_summary_mismatch: warn"):
        commit.commit_batch(replace(batch.context, plan=wrong))
    helped = workshop.set(on_summary_mismatch="warn").open()
    assert helped.plan == plan
    report = commit.commit_batch(replace(helped.context, plan=wrong))
    assert "says that it changed the number of rows by 7" in report.warnings[-1]


def test_memory_that_is_raised_helps_the_batch_that_died_of_it(workshop: Workshop, batch: OpenBatch) -> None:
    assert batch.context.settings.memory_bytes == 2**30
    again = workshop.set(shuffle={"memory_bytes": "2GiB"}).open()
    assert again.plan == batch.plan
    assert again.context.settings.memory_bytes == 2 * 2**30


def test_status_and_offset_tell_owner_and_run(workshop: Workshop) -> None:
    workshop.append([1])
    session = replace(workshop.session(), writer=Writer(owner="us", run="run 1"))
    from icefloe.batch.prepare import prepare
    from icefloe.batch.publish_status import publish_status

    prepare(session)
    status = publish_status(session, phase="plan")
    assert status is not None
    assert (status.owner, status.open_run) == ("us", "run 1")
    opened = session.checkpoint.look().opened
    assert opened is not None
    assert opened.opened_by == session.writer
