from dataclasses import replace

import pytest

from icefloe.batch.context.batch_folder import UnfinishedTasksError
from icefloe.batch.reduce.coalesce_map_outputs import load_coalesce_plan
from icefloe.documents import dump_document
from icefloe.errors import TerminalError
from icefloe.flow import Phase
from support.pipelines.workshop import OpenBatch, Workshop


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    return workshop.in_tasks(2, partitions=8).open()


def test_a_map_task_without_output_is_never_taken_for_an_empty_one(batch: OpenBatch) -> None:
    batch.run(Phase.SHUFFLE_WRITE)
    batch.store.delete(["1.0"])
    sentence = (
        rf"^1 of {batch.plan.num_map_tasks} map tasks have no valid output \(the first: 1\); run again, or in Airflow "
        "clear shuffle_write and its downstream tasks: only those map tasks run again$"
    )
    with pytest.raises(UnfinishedTasksError, match=sentence) as refused:
        batch.coalesce()
    assert refused.value.phase is Phase.SHUFFLE_WRITE


def test_ranges_never_change_once_they_are_made(batch: OpenBatch, workshop: Workshop) -> None:
    batch.run(Phase.SHUFFLE_WRITE)
    before = batch.coalesce().plan
    plan = batch.batch_folder.plan
    other = replace(plan, spec=replace(plan.spec, target_size_bytes=1_000_000))
    batch.store.put("plan.json", dump_document(other.sealed()))
    assert batch.batch_folder.plan.spec.target_size_bytes == 1_000_000
    assert batch.coalesce().plan == before == load_coalesce_plan(batch.batch_folder)


def test_ranges_that_are_damaged_say_the_way_out_in_coalesce_too(batch: OpenBatch) -> None:
    batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    batch.store.put("ranges.json", batch.store.get("ranges.json").replace(b"num_partitions", b"num_partitiols"))
    with pytest.raises(TerminalError, match=r"ranges\.json cannot be read .*, or delete everything below .* run again"):
        batch.coalesce()
