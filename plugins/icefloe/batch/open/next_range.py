"""The snapshots that a pipeline's next batch covers."""

import logging
from dataclasses import replace
from typing import Final, Literal

from icefloe.batch.open.batch_bounds import steps_within
from icefloe.batch.open.load_parts import first_part, next_part
from icefloe.checkpoint.log import Cursor
from icefloe.iceberg.history.history import ExpiredHistoryError, History
from icefloe.iceberg.history.lag import lag
from icefloe.iceberg.history.metadata_log import MetadataFiles
from icefloe.iceberg.history.passage import Passage, find_passage
from icefloe.iceberg.history.tag_moves import find_tag_passage
from icefloe.iceberg.load_part import LoadPart
from icefloe.iceberg.steps.steps import SnapshotRange, plan_range, steps_of
from icefloe.iceberg.table import Table
from icefloe.pipeline.model import Pipeline

logger = logging.getLogger(__name__)

_CONTINUOUS: Final = "@continuous"
_LOADS: Final[dict[str, Literal["full", "from_earliest"]]] = {"full": "full", "from_earliest": "from_earliest"}


def next_range(table: Table, pipeline: Pipeline, cursor: Cursor | None) -> SnapshotRange | None:
    """The range after the cursor, or the range of the initial load; None if the branch or tag has not moved.

    The range ends when a bound of a batch is reached, but never inside a commit. The first commit is taken whatever its
    size. A load is cut between data files. The next batches go on with it, at its snapshot, until it is complete.

    Args:
        table: as loaded.
        pipeline: its ``initial_load``, ``on_gap``, ``on_rollback`` and bounds of a batch decide.
        cursor: None before the first batch.

    Raises:
        ExpiredHistoryError: ``on_gap`` is ``fail``, and the cursor's snapshot expired, or the snapshot of a load
            expired before the load was complete.
        TerminalError: see `plan_range`.
    """
    if cursor is None:
        return _initial_range(table, pipeline)

    try:
        if cursor.load_part is not None and cursor.snapshot_id is not None:
            return _rest_of_load(cursor.load_part, cursor.snapshot_id, table, pipeline)
        snapshots = _range_after(cursor.snapshot_id, table, pipeline)
    except ExpiredHistoryError as gap:
        snapshots = _across(gap, table, pipeline)
    return None if snapshots.up_to_snapshot_id == cursor.snapshot_id else snapshots


def _rest_of_load(delivered: LoadPart, snapshot_id: int, table: Table, pipeline: Pipeline) -> SnapshotRange:
    snapshots = next_part(table, delivered, snapshot_id=snapshot_id, max_bytes=pipeline.max_bytes_per_batch)
    return _with_rest(snapshots, table, pipeline)


def _range_after(snapshot_id: int | None, table: Table, pipeline: Pipeline) -> SnapshotRange:
    files = MetadataFiles.of(table)
    if snapshot_id is not None and History.of(table).is_tag(pipeline.branch):
        moved = find_tag_passage(
            table, files, tag=pipeline.branch, after_snapshot_id=snapshot_id, on_rollback=pipeline.on_rollback
        )
        return steps_of(moved, files)
    passage = find_passage(
        table, files, branch=pipeline.branch, after_snapshot_id=snapshot_id, on_rollback=pipeline.on_rollback
    )
    return _bounded(passage, files, table, pipeline)


def _initial_range(table: Table, pipeline: Pipeline) -> SnapshotRange | None:
    if pipeline.initial_load == "from_now":
        head = History.of(table).head(pipeline.branch)
        return SnapshotRange(after_snapshot_id=None, up_to_snapshot_id=None if head is None else head.snapshot_id)
    files = MetadataFiles.of(table)
    load = "full" if History.of(table).is_tag(pipeline.branch) else _LOADS[pipeline.initial_load]
    passage = find_passage(table, files, branch=pipeline.branch, load=load)
    return None if passage.up_to_snapshot_id is None else _bounded(passage, files, table, pipeline)


def _bounded(passage: Passage, files: MetadataFiles, table: Table, pipeline: Pipeline) -> SnapshotRange:
    """The first steps of a passage, as many as a batch may have, or the first part of its load."""

    def first(max_steps: int) -> SnapshotRange:
        return steps_of(passage, files, commit_groups=pipeline.commit_groups, max_steps=max_steps)

    snapshots = first(pipeline.max_steps_per_batch)
    fitting = steps_within(table, snapshots.steps, max_bytes=pipeline.max_bytes_per_batch)
    bounded = snapshots if fitting == len(snapshots.steps) else first(fitting)
    return _with_rest(first_part(table, bounded, max_bytes=pipeline.max_bytes_per_batch), table, pipeline)


def _with_rest(snapshots: SnapshotRange, table: Table, pipeline: Pipeline) -> SnapshotRange:
    """The range, with a warning if it leaves work to later batches: under a schedule each run delivers one batch."""
    if pipeline.schedule == _CONTINUOUS:
        return snapshots
    part = snapshots.steps[0].load_part if snapshots.steps else None
    if part is not None and not part.is_last:
        return _warning(
            snapshots,
            f"the initial load of snapshot {snapshots.up_to_snapshot_id} has come to {part}, and under this schedule "
            "each run delivers one batch: raise max_bytes_per_batch, or have the load done under schedule: "
            f"'{_CONTINUOUS}'",
        )
    rest = lag(table, branch=pipeline.branch, cursor_snapshot_id=snapshots.up_to_snapshot_id).snapshots
    if not rest:
        return snapshots
    return _warning(
        snapshots,
        f"{rest} snapshots behind snapshot {snapshots.up_to_snapshot_id} are left to later batches, and under this "
        "schedule each run delivers one: if the pipeline does not catch up, raise max_steps_per_batch and "
        f"max_bytes_per_batch, or set schedule: '{_CONTINUOUS}'",
    )


def _warning(snapshots: SnapshotRange, warning: str) -> SnapshotRange:
    return replace(snapshots, warnings=(*snapshots.warnings, warning))


def _across(gap: ExpiredHistoryError, table: Table, pipeline: Pipeline) -> SnapshotRange:
    """A full load of the table after a gap in its history, if the pipeline asks for that; otherwise it stops."""
    if pipeline.on_gap == "fail":
        raise gap.restated(
            f"{gap.sentence}; set on_gap: reload to deliver every row again, or give the pipeline another name to "
            "start over",
        ) from gap
    warning = (
        f"{gap.sentence}; the table was loaded again (on_gap: reload): every row is an INSERT, and rows deleted since "
        "are not delivered as DELETE; a consumer must drop its rows of the earlier batches"
    )
    logger.warning("%s: %s", pipeline.name, warning)
    whole = plan_range(table, branch=pipeline.branch, load="full", commit_groups=pipeline.commit_groups)
    loaded = first_part(table, whole, max_bytes=pipeline.max_bytes_per_batch)
    return replace(loaded, warnings=(warning, *loaded.warnings), is_reload=True)
