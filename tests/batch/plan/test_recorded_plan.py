"""A plan that is made again is the one that was recorded, or it is refused."""

from dataclasses import replace

import pytest

from batch.plan.test_task_document import equality_deletes, golden_tasks
from icefloe.batch.plan.make_plan import PlannedBatch
from icefloe.batch.plan.map_tasks import map_task_document
from icefloe.batch.plan.plan_of_batch import refuse_other_plan
from icefloe.checkpoint.records import OffsetRecord
from icefloe.documents import digest_of, dump_document
from icefloe.errors import TerminalError
from support.pipelines.workshop import Workshop


@pytest.fixture
def planned(workshop: Workshop) -> tuple[PlannedBatch, OffsetRecord]:
    """A plan with a task, and the offset of a batch."""
    workshop.append(range(3))
    plan = workshop.open().plan
    offset = workshop.session().checkpoint.offset(0)
    assert offset is not None
    task = map_task_document(0, golden_tasks(), {number: equality_deletes(number) for number in (3, 5, 7)})
    plan = replace(plan, map_task_bytes=(task.size_bytes,), map_task_digests=(digest_of(dump_document(task)),))
    return PlannedBatch(plan=plan, tasks=(task,)), offset


def test_a_plan_that_is_made_again_as_it_was_is_taken(planned: tuple[PlannedBatch, OffsetRecord]) -> None:
    batch, offset = planned
    refuse_other_plan(batch, replace(offset, plan_digest=batch.plan.digest))


def test_another_plan_is_refused(planned: tuple[PlannedBatch, OffsetRecord]) -> None:
    batch, offset = planned
    with pytest.raises(TerminalError):
        refuse_other_plan(batch, replace(offset, plan_digest="0" * 32))


def test_a_plan_for_another_folder_of_changes_is_refused_with_its_name(
    planned: tuple[PlannedBatch, OffsetRecord],
) -> None:
    batch, offset = planned
    moved = replace(batch, plan=replace(batch.plan, sink={**batch.plan.sink, "path": "file:///elsewhere"}))
    with pytest.raises(TerminalError):
        refuse_other_plan(moved, replace(offset, plan_digest=batch.plan.digest))
