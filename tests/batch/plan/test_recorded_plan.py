"""A plan that is made again is the one that was recorded, or it is refused."""

from dataclasses import replace

import pytest

from batch.plan.test_task_document import equality_deletes, golden_tasks
from icefloe.batch.plan.make_plan import PlannedBatch
from icefloe.batch.plan.recorded_plan import OtherFolderError, OtherPlanError, plan_as_recorded
from icefloe.batch.plan.task_document import map_task_document
from icefloe.checkpoint.records import OffsetRecord
from icefloe.documents import digest_of, dump_document
from support.pipelines.workshop import Workshop


@pytest.fixture
def planned(workshop: Workshop) -> tuple[PlannedBatch, OffsetRecord]:
    """A plan with a task of version 2, and the offset of a batch."""
    workshop.append(range(3))
    plan = workshop.open().plan
    offset = workshop.session().checkpoint.offset(0)
    assert offset is not None
    task = map_task_document(0, golden_tasks(), {number: equality_deletes(number) for number in (3, 5, 7)})
    plan = replace(plan, map_task_bytes=(task.size_bytes,), map_task_digests=(digest_of(dump_document(task)),))
    return PlannedBatch(plan=plan, tasks=(task,), whole_files=(task,)), offset


def test_a_plan_of_this_release_is_made_again_as_it_is(planned: tuple[PlannedBatch, OffsetRecord]) -> None:
    batch, offset = planned
    assert plan_as_recorded(batch, replace(offset, plan_digest=batch.plan.digest)) is batch
    assert plan_as_recorded(batch, replace(offset, plan_digest=None)) is batch


def test_a_batch_that_an_earlier_release_opened_gets_the_plan_and_the_tasks_of_that_release(
    planned: tuple[PlannedBatch, OffsetRecord],
) -> None:
    batch, offset = planned
    [task] = batch.tasks
    earlier = task.with_own_terms()
    digests = (digest_of(dump_document(earlier)),)
    recorded = replace(offset, plan_digest=replace(batch.plan, map_task_digests=digests).digest)
    found = plan_as_recorded(batch, recorded)
    assert (found.tasks, found.plan.map_task_digests) == ((earlier,), digests)


def test_another_plan_is_refused(planned: tuple[PlannedBatch, OffsetRecord]) -> None:
    batch, offset = planned
    with pytest.raises(OtherPlanError):
        plan_as_recorded(batch, replace(offset, plan_digest="0" * 32))


def test_an_offset_of_an_earlier_release_that_names_no_folder_blames_none(
    planned: tuple[PlannedBatch, OffsetRecord],
) -> None:
    batch, offset = planned
    moved = replace(batch, plan=replace(batch.plan, sink={**batch.plan.sink, "path": "file:///elsewhere"}))
    with pytest.raises(OtherFolderError):
        plan_as_recorded(moved, replace(offset, plan_digest=batch.plan.digest))
    known = {key: value for key, value in offset.result_configuration.items() if key != "changes_folder"}
    earlier = replace(offset, plan_digest=batch.plan.digest, result_configuration={**known, "sink.type": "index"})
    with pytest.raises(OtherPlanError):
        plan_as_recorded(moved, earlier)
