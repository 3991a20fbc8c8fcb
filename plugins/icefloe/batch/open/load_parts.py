"""An initial load in as many batches as its bytes require, all from one pinned snapshot."""

from collections.abc import Iterator
from dataclasses import replace

from icefloe.batch.open.batch_bounds import leading_within
from icefloe.iceberg.history.history import ExpiredHistoryError, History
from icefloe.iceberg.history.summaries import file_bytes_bound
from icefloe.iceberg.load_part import LoadPart
from icefloe.iceberg.scan.scan_tasks import ScanPlan, plan_scan_tasks
from icefloe.iceberg.step import Step, StepKind
from icefloe.iceberg.steps.steps import SnapshotRange
from icefloe.iceberg.table import Table


def first_part(table: Table, snapshots: SnapshotRange, *, max_bytes: int) -> SnapshotRange:
    """The range as it is, or only the first files of its load if the load alone reads more than ``max_bytes``.

    A range that holds more steps than its load already fits.
    """
    if len(snapshots.steps) != 1 or snapshots.steps[0].kind is not StepKind.INITIAL:
        return snapshots
    [step] = snapshots.steps
    bound = file_bytes_bound(History.of(table).snapshots, snapshots.steps)
    if bound is not None and bound <= max_bytes:
        return snapshots
    load = plan_scan_tasks(table, snapshots.steps)
    stop_file = leading_within(_sizes(load), max_bytes=max_bytes)
    if stop_file >= len(load.tasks):
        return snapshots
    # A load of 5 files in 3 batches. The cursor is at its snapshot after the first, and stays there until the last:
    #   batch 0   files 0-2   none -> snapshot 7
    #   batch 1   files 2-4   7 -> 7
    #   batch 2   files 4-5   7 -> 7; the next batch begins behind 7
    part = LoadPart(first_file=0, stop_file=stop_file, num_files=len(load.tasks))
    return SnapshotRange(
        after_snapshot_id=None, up_to_snapshot_id=step.end_snapshot_id, steps=(replace(step, load_part=part),)
    )


def next_part(table: Table, delivered: LoadPart, *, snapshot_id: int, max_bytes: int) -> SnapshotRange:
    """The next files of a load after the delivered ones. The range begins and ends at the load's snapshot.

    Raises:
        ExpiredHistoryError: the snapshot expired, and its files with it.
        TerminalError: its manifests list other files than when the load began.
    """
    history = History.of(table)
    snapshot = history.snapshots.get(snapshot_id)
    if snapshot is None:
        raise ExpiredHistoryError(
            f"the initial load of table {history.table_name} has delivered {delivered.stop_file} of "
            f"{delivered.num_files} files of snapshot {snapshot_id}, which has expired since",
            table=history.table_name,
            snapshot_id=snapshot_id,
        )
    step = Step.initial(snapshot_id, timestamp_ms=snapshot.timestamp_ms)
    rest = replace(delivered, first_file=delivered.stop_file, stop_file=delivered.num_files)
    sizes = _sizes(plan_scan_tasks(table, [replace(step, load_part=rest)]))
    part = replace(rest, stop_file=rest.first_file + leading_within(sizes, max_bytes=max_bytes))
    return SnapshotRange(
        after_snapshot_id=snapshot_id, up_to_snapshot_id=snapshot_id, steps=(replace(step, load_part=part),)
    )


def _sizes(load: ScanPlan) -> Iterator[int]:
    """Bytes of each data file and of the delete files in force on it that no earlier data file needs."""
    seen: set[int] = set()
    for task in load.tasks:
        new = {number for term in task.terms for number in term.delete_files} - seen
        seen |= new
        yield task.data_file.file_size_bytes + sum(load.delete_files[number].size_bytes for number in new)
