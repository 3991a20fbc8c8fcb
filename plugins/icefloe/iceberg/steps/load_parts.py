"""The parts of a load: as many of its files as one batch may read."""

from dataclasses import replace

from icefloe.iceberg.history.history import ExpiredHistoryError
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.load_part import LoadPart
from icefloe.iceberg.scan.scan_tasks import plan_scan_tasks
from icefloe.iceberg.step import Step
from icefloe.iceberg.steps.bytes_of_steps import leading_within, surely_fit
from icefloe.iceberg.steps.steps import SnapshotRange

__all__ = ["next_part"]


def first_part(table: LoadedTable, snapshots: SnapshotRange, *, max_bytes: int) -> SnapshotRange:
    """The range of a load as it is, or only its first files if all of them have more than ``max_bytes``."""
    if surely_fit(table, snapshots.steps, max_bytes=max_bytes):
        return snapshots
    [step] = snapshots.steps
    load = plan_scan_tasks(table, snapshots.steps)
    stop_file = leading_within(load.sizes(), max_bytes=max_bytes)
    if stop_file >= len(load.tasks):
        return snapshots
    # A load of 5 files in 3 batches. The cursor is at its snapshot after the first, and stays there until the last:
    #   batch 0   files 0-2   none -> snapshot 7
    #   batch 1   files 2-4   7 -> 7
    #   batch 2   files 4-5   7 -> 7; the next batch begins after 7
    part = LoadPart(first_file=0, stop_file=stop_file, num_files=len(load.tasks))
    return SnapshotRange(
        after_snapshot_id=None, up_to_snapshot_id=step.end_snapshot_id, steps=(replace(step, load_part=part),)
    )


def next_part(table: LoadedTable, delivered: LoadPart, *, snapshot_id: int, max_bytes: int) -> SnapshotRange:
    """The next files of a load after the delivered ones. The range begins and ends at the load's snapshot.

    Raises:
        ExpiredHistoryError: the snapshot expired, and its files with it.
        TerminalError: its manifests list other files than when the load began.
    """
    snapshot = table.history.snapshots.get(snapshot_id)
    if snapshot is None:
        raise ExpiredHistoryError(
            f"the initial load of table {table.name} has delivered {delivered.stop_file} of "
            f"{delivered.num_files} files of snapshot {abs(snapshot_id)}, which has expired, was taken back or is not "
            "given",
            table=table.name,
            snapshot_id=snapshot_id,
        )
    step = Step.initial(snapshot_id, timestamp_ms=snapshot.timestamp_ms)
    rest = replace(delivered, first_file=delivered.stop_file, stop_file=delivered.num_files)
    load = plan_scan_tasks(table, [replace(step, load_part=rest)])
    part = replace(rest, stop_file=rest.first_file + leading_within(load.sizes(), max_bytes=max_bytes))
    return SnapshotRange(
        after_snapshot_id=snapshot_id, up_to_snapshot_id=snapshot_id, steps=(replace(step, load_part=part),)
    )
