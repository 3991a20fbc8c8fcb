"""The first steps of a passage that fit into one batch."""

from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage
from icefloe.iceberg.step import StepKind
from icefloe.iceberg.steps.bytes_of_steps import steps_within
from icefloe.iceberg.steps.load_parts import first_part
from icefloe.iceberg.steps.steps import SnapshotRange, steps_of
from icefloe.pipeline.option_values import CommitGroupsOption

__all__ = ["first_steps"]


def first_steps(
    passage: Passage, table: LoadedTable, *, commit_groups: CommitGroupsOption, max_steps: int, max_bytes: int
) -> SnapshotRange:
    """The first steps of a passage that fit into one batch; at least one step, or one file of a load.

    Args:
        passage: the snapshots to deliver.
        table: as loaded.
        commit_groups: see `steps_of`.
        max_steps: the most steps, at least one.
        max_bytes: the most bytes of files that the steps read together.

    Raises:
        TerminalError, TransientError: see `steps_of` and `plan_scan_tasks`.
    """
    snapshots = steps_of(passage, table, commit_groups=commit_groups, max_steps=max_steps)
    fitting = steps_within(table, snapshots.steps, max_bytes=max_bytes)
    if fitting < len(snapshots.steps):
        snapshots = steps_of(passage, table, commit_groups=commit_groups, max_steps=fitting)
    # A load that has other steps after it in the range fits already.
    if len(snapshots.steps) == 1 and snapshots.steps[0].kind is StepKind.INITIAL:
        return first_part(table, snapshots, max_bytes=max_bytes)
    return snapshots
