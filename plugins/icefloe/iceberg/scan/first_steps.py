"""The first steps of a passage, or files of a load, that fit into one batch."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from icefloe.iceberg.history.history import ExpiredHistoryError
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage
from icefloe.iceberg.history.summaries import file_bytes_bound
from icefloe.iceberg.scan.scan_tasks import ScanPlan, plan_scan_tasks
from icefloe.iceberg.scan.steps import SnapshotRange, steps_of
from icefloe.iceberg.step import LoadPart, Step, StepKind
from icefloe.pipeline.option_values import CommitGroupsOption

__all__ = ["first_steps", "next_part"]


def steps_within(table: LoadedTable, steps: Sequence[Step], *, max_bytes: int) -> int:
    """Number of leading steps, at least one, within ``max_bytes`` of files, each file once.

    If the summaries prove that all steps fit, no manifest is read.
    """
    if len(steps) < 2 or surely_fit(table, steps, max_bytes=max_bytes):
        return len(steps)
    return leading_within(_new_bytes(plan_scan_tasks(table, steps), steps), max_bytes=max_bytes)


def surely_fit(table: LoadedTable, steps: Sequence[Step], *, max_bytes: int) -> bool:
    bound = file_bytes_bound(table.history.snapshots, steps)
    return bound is not None and bound <= max_bytes


def leading_within(sizes: Iterable[int], *, max_bytes: int) -> int:
    """Number of leading sizes that add up to at most ``max_bytes``; at least one.

    >>> leading_within([3, 4, 5], max_bytes=7), leading_within([3, 4, 5], max_bytes=1)
    (2, 1)
    """
    return max(1, sum(total <= max_bytes for total in accumulate(sizes)))


def _new_bytes(scan: ScanPlan, steps: Sequence[Step]) -> Iterable[int]:
    """Of files that no earlier step reads."""
    sizes = {step.change_ordinal: 0 for step in steps}
    first_steps: dict[int, int] = {}
    # A file counts for the first step that reads it: terms come in the order of the steps.
    for task in scan.tasks:
        sizes[task.terms[0].change_ordinal] += task.data_file.file_size_bytes
        for term in task.terms:
            for number in term.delete_files:
                first_steps[number] = min(term.change_ordinal, first_steps.get(number, term.change_ordinal))
    for number, ordinal in first_steps.items():
        sizes[ordinal] += scan.delete_files[number].size_bytes
    return sizes.values()


def first_part(table: LoadedTable, snapshots: SnapshotRange, *, max_bytes: int) -> SnapshotRange:
    """All, or the first files if all have more than ``max_bytes``."""
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
    """The next files of a load, as a range that begins and ends at its snapshot.

    Raises:
        ExpiredHistoryError: the snapshot expired, and its files with it.
    """
    snapshot = table.history.snapshots.get(snapshot_id)
    if snapshot is None:
        raise ExpiredHistoryError(
            f"the initial load of table {table.name} has delivered {delivered.stop_file} of "
            f"{delivered.num_files} files of snapshot {abs(snapshot_id)}, which has expired, was taken back or is not "
            "given"
        )
    step = Step.initial(snapshot_id, timestamp_ms=snapshot.timestamp_ms)
    rest = replace(delivered, first_file=delivered.stop_file, stop_file=delivered.num_files)
    load = plan_scan_tasks(table, [replace(step, load_part=rest)])
    part = replace(rest, stop_file=rest.first_file + leading_within(load.sizes(), max_bytes=max_bytes))
    return SnapshotRange(
        after_snapshot_id=snapshot_id, up_to_snapshot_id=snapshot_id, steps=(replace(step, load_part=part),)
    )


def first_steps(
    passage: Passage, table: LoadedTable, *, commit_groups: CommitGroupsOption, max_steps: int, max_bytes: int
) -> SnapshotRange:
    """The first steps that fit into one batch; at least one step, or one file of a load."""
    snapshots = steps_of(passage, table, commit_groups=commit_groups, max_steps=max_steps)
    fitting = steps_within(table, snapshots.steps, max_bytes=max_bytes)
    if fitting < len(snapshots.steps):
        snapshots = steps_of(passage, table, commit_groups=commit_groups, max_steps=fitting)
    # A load that has other steps after it in the range fits already.
    if len(snapshots.steps) == 1 and snapshots.steps[0].kind is StepKind.INITIAL:
        return first_part(table, snapshots, max_bytes=max_bytes)
    return snapshots
