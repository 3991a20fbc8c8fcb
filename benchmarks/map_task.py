"""One map task over the benchmark's table: planned, run, and what it left measured."""

from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

from pyiceberg.table import Table

from icefloe.batch.context.batch_folder import BatchFolder, MapInputs
from icefloe.batch.map import write_map_output as module_of_map_tasks
from icefloe.batch.map.carryover import CarryOver
from icefloe.batch.map.rewritten_files import FastWay
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.plan.make_plan import PlannedBatch, make_plan
from icefloe.batch.plan_document import put_map_tasks, tasks_key
from icefloe.checkpoint.batch_spec import BatchSpec, Identity
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage
from icefloe.iceberg.scan.steps import SnapshotRange
from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.committed_output import MapOutputLog, read_committed_output
from icefloe.shuffle.extents import CollectedBlocks
from icefloe.shuffle.fetch import fetch_blocks
from icefloe.storage.location import open_store

__all__ = ["MapTaskResult", "map_task_inputs", "measure", "planned_batch", "run_map_task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTaskResult:
    """The input and the rest of one map task over both files."""

    rows_read: int
    shuffled_bytes: int
    changed_rows: int
    changed_arrow_bytes: int


def planned_batch(table: Table, *, identifier: str = "flight_id") -> PlannedBatch:
    """The second snapshot of the table as a batch, planned for one core."""
    loaded, first = LoadedTable(table), table.metadata.snapshots[0].snapshot_id
    snapshots = SnapshotRange.of_passage(Passage.find(loaded, after_snapshot_id=first), loaded)
    spec = BatchSpec(
        after_snapshot_id=snapshots.after_snapshot_id,
        up_to_snapshot_id=snapshots.up_to_snapshot_id,
        steps=snapshots.steps,
        identity=Identity(policy="pipeline", columns=(identifier,)),
        cores=1,
        hash_key=1,
    )
    return make_plan(loaded, spec)


def map_task_inputs(table: Table, attempt: int) -> MapInputs:
    """The second snapshot of the table as a batch of one map task, which nobody has run yet."""
    planned = planned_batch(table)
    store = open_store(f"memory://benchmark-{attempt}")
    [task] = planned.tasks
    put_map_tasks(store, [task], key=tasks_key(planned.plan.map_task_digests))
    folder = BatchFolder(plan=planned.plan, store=store, memory_bytes=2**30, filter_text=None)
    return MapInputs(folder=folder, io=table.io)


def run_map_task(inputs: MapInputs, fast_ways: tuple[FastWay, ...] = tuple(FastWay)) -> BatchFolder:
    """Runs the one map task by some fast ways, from files to the committed map output."""
    with patch.object(module_of_map_tasks, "CarryOver", partial(CarryOver, fast_ways=fast_ways)):
        write_map_output(inputs, 0)
    return inputs.folder


def measure(folder: BatchFolder) -> MapTaskResult:
    """The output of the map task, and the Arrow size of its rows."""
    [record] = MapOutputLog(folder.store).records([0])
    schema = BlockRows.schema(folder.shape.delivered.arrow)
    partitions = folder.plan.num_partitions
    output = read_committed_output(folder.store, record, schema=schema, num_partitions=partitions)
    with CollectedBlocks(partitions) as collected:
        collected.add(output)
        [extents] = collected.extents([ReduceRange(range_id=0, start=0, stop=partitions)])
    blocks = fetch_blocks(folder.store, extents, schema, max_fetch_bytes=1 << 30)
    return MapTaskResult(
        rows_read=record.removed_rows_read + record.added_rows_read,
        shuffled_bytes=sum(file.size_bytes for file in (record.data, record.index) if file),
        changed_rows=record.rows,
        changed_arrow_bytes=sum(batch.nbytes for block in blocks for batch in block.batches),
    )
