"""The snapshots that a pipeline's next batch covers."""

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from icefloe.batch.open.passage_after_cursor import passage_after_cursor, passage_at_gap
from icefloe.checkpoint.cursor import Cursor
from icefloe.iceberg.history.history import ExpiredHistoryError, History
from icefloe.iceberg.history.lag import commits_behind
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.pins import PinNames
from icefloe.iceberg.steps.first_steps import first_steps
from icefloe.iceberg.steps.load_parts import next_part
from icefloe.iceberg.steps.steps import SnapshotRange
from icefloe.pipeline.model import Pipeline

logger = logging.getLogger(__name__)

_CONTINUOUS: Final = "@continuous"


def next_range(
    table: LoadedTable,
    pipeline: Pipeline,
    cursor: Cursor | None,
    *,
    pins: PinNames | None = None,
    end_at: Collection[int] = (),
) -> SnapshotRange | None:
    """The range after the cursor, or the range of the initial load; None if the branch or tag has not moved.

    The range ends when a bound of a batch is reached, but never inside a commit. The first commit is taken whatever its
    size. A load is cut between data files. The next batches go on with it, at its snapshot, until it is complete.
    Before a gap in the history, the range goes as far as the pins hold it. ``on_gap`` decides about the gap itself.
    If the branch has no snapshot any more, there is no range until its next commit, from which the rows go.

    Args:
        table: as loaded.
        pipeline: its ``initial_load``, ``on_gap``, ``on_rollback`` and bounds of a batch decide.
        cursor: None before the first batch. A cursor at the beginning leads to the initial load too.
        pins: names of the branch and the tags by which the pipeline keeps snapshots; None: it keeps none.
        end_at: snapshots that no range goes past; see `snapshots_left_by_cursor`.

    Raises:
        ExpiredHistoryError: ``on_gap`` is ``fail``, and the cursor's snapshot expired, or the snapshot of a load
            expired before the load was complete. No pins lead further.
        TerminalError: see `find_passage`.
    """
    if cursor is not None and cursor.is_beginning:
        cursor = None
    if cursor is None and pipeline.initial_load == "from_now":
        head = table.history.head(pipeline.branch)
        return SnapshotRange(after_snapshot_id=None, up_to_snapshot_id=None if head is None else head.snapshot_id)
    gap_warning: str | None = None
    try:
        if cursor is not None and cursor.load_part is not None and cursor.snapshot_id is not None:
            part = next_part(
                table, cursor.load_part, snapshot_id=cursor.snapshot_id, max_bytes=pipeline.max_bytes_per_batch
            )
            return _with_rest(part, table, pipeline)
        if is_emptied(table.history, pipeline, cursor):
            logger.warning(
                "%s: branch %r of table %s has no snapshot any more: the next commit delivers the difference",
                pipeline.name, pipeline.branch, table.name,
            )  # fmt: skip
            return None
        passage = passage_after_cursor(table, pipeline, cursor).up_to_first_of(end_at)
    except ExpiredHistoryError as gap:
        passage, gap_warning = passage_at_gap(gap, table, pipeline, cursor, pins)
        logger.warning("%s: %s", pipeline.name, gap_warning)
    if gap_warning is None and passage.up_to_snapshot_id == (None if cursor is None else cursor.snapshot_id):
        return None
    snapshots = first_steps(
        passage,
        table,
        commit_groups=pipeline.commit_groups,
        max_steps=pipeline.max_steps_per_batch,
        max_bytes=pipeline.max_bytes_per_batch,
    )
    if gap_warning is None:
        return _with_rest(snapshots, table, pipeline)
    is_reload = passage.after_snapshot_id is None
    return replace(snapshots, warnings=(gap_warning, *snapshots.warnings), is_reload=is_reload)


def is_emptied(history: History, pipeline: Pipeline, cursor: Cursor | None) -> bool:
    """True if a branch that was delivered has no snapshot any more, and the pipeline waits for its next commit.

    A table that was replaced by an empty one is so until somebody writes to it.
    """
    is_delivered = cursor is not None and cursor.snapshot_id is not None
    return is_delivered and pipeline.on_rollback == "compensate" and history.head(pipeline.branch) is None


def _with_rest(snapshots: SnapshotRange, table: LoadedTable, pipeline: Pipeline) -> SnapshotRange:
    """The range, with a warning if it leaves work to later batches: under a schedule each run delivers one batch."""
    part = snapshots.steps[0].load_part if snapshots.steps else None
    if pipeline.schedule == _CONTINUOUS:
        return snapshots
    if part is not None and not part.is_last:
        warning = (
            f"the initial load of snapshot {snapshots.up_to_snapshot_id} has come to {part}, and under this schedule "
            "each run delivers one batch: raise max_bytes_per_batch, or have the load done under schedule: "
            f"'{_CONTINUOUS}'"
        )
    elif rest := commits_behind(table.history, branch=pipeline.branch, cursor_snapshot_id=snapshots.up_to_snapshot_id):
        warning = (
            f"the batch ends at snapshot {snapshots.up_to_snapshot_id} and leaves {len(rest)} to later batches, and "
            "under this schedule each run delivers one: if the pipeline does not catch up, raise max_steps_per_batch "
            f"and max_bytes_per_batch, or set schedule: '{_CONTINUOUS}'"
        )
    else:
        return snapshots
    return replace(snapshots, warnings=(*snapshots.warnings, warning))
