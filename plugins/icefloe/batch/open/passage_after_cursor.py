"""The snapshots after a pipeline's cursor, or as many of them as history and pins still lead to."""

from typing import Final, Literal, TypeAlias

from icefloe.checkpoint.cursor import Cursor
from icefloe.iceberg.history.history import ExpiredHistoryError, NotAnAncestorError
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage, find_passage
from icefloe.iceberg.history.pins import PinNames, PinnedRefs
from icefloe.iceberg.history.tag_moves import find_tag_passage
from icefloe.pipeline.model import Pipeline

_Load: TypeAlias = Literal["changes", "full", "from_earliest"]
_LOADS: Final[dict[str, _Load]] = {"full": "full", "from_earliest": "from_earliest"}


def passage_after_cursor(table: LoadedTable, pipeline: Pipeline, cursor: Cursor | None) -> Passage:
    """All snapshots from the cursor to the head, or the load.

    Raises:
        ExpiredHistoryError: history does not reach back to the cursor.
        TerminalError: see `find_passage`.
    """
    branch, on_rollback = pipeline.branch, pipeline.on_rollback
    after_snapshot_id = None if cursor is None else cursor.snapshot_id
    is_tag = table.history.is_tag(branch)
    if is_tag and after_snapshot_id is not None:
        return find_tag_passage(table, tag=branch, after_snapshot_id=after_snapshot_id, on_rollback=on_rollback)
    load: _Load = "changes"
    if cursor is None:
        load = "full" if is_tag else _LOADS[pipeline.initial_load]
    return find_passage(
        table,
        branch=branch,
        after_snapshot_id=after_snapshot_id,
        after_was_head=True,
        load=load,
        on_rollback=on_rollback,
    )


def passage_at_gap(
    gap: ExpiredHistoryError, table: LoadedTable, pipeline: Pipeline, cursor: Cursor | None, pins: PinNames | None
) -> tuple[Passage, str]:
    """The passage up to a gap in the history, as far as pins hold it; after that a full load.

    Returns:
        The passage and its warning. A passage after no snapshot is the load.

    Raises:
        ExpiredHistoryError: no pins lead further, and ``on_gap`` is ``fail``.
    """
    passage = _up_to_pins(table, pipeline, cursor, pins)
    if passage is not None:
        return passage, (
            f"table {table.name} has lost changes after snapshot {passage.up_to_snapshot_id}, the last one that is "
            "pinned: they expired before a run saw them; batches go on up to it, and then on_gap: "
            f"{pipeline.on_gap} decides"
        )
    if pipeline.on_gap == "fail":
        raise gap.restated(
            f"{gap.sentence}; set on_gap: reload to deliver every row again, or start over by icefloe reset "
            f"{pipeline.name}",
        ) from gap
    return find_passage(table, branch=pipeline.branch, load="full"), (
        f"{gap.sentence}; the table was loaded again (on_gap: reload): every row is an INSERT, and rows deleted "
        "since are not delivered as DELETE; a consumer must drop its rows of the earlier batches"
    )


def _up_to_pins(table: LoadedTable, pipeline: Pipeline, cursor: Cursor | None, pins: PinNames | None) -> Passage | None:
    """The passage from the cursor to the last pinned snapshot; None if nothing is pinned, or if it is delivered."""
    # A tag is a state without a history, and a load reads one snapshot: pins that hold their start hold all of it.
    if pins is None or cursor is None or cursor.snapshot_id is None or cursor.load_part is not None:
        return None
    if table.history.is_tag(pipeline.branch):
        return None
    end_id = PinnedRefs.of(table.history, pins).end_after(cursor.snapshot_id, table.history)
    if end_id is None:
        return None
    try:
        return find_passage(
            table,
            branch=pipeline.branch,
            after_snapshot_id=cursor.snapshot_id,
            up_to_snapshot_id=end_id,
            was_head=True,
            after_was_head=True,
            on_rollback=pipeline.on_rollback,
        )
    except (ExpiredHistoryError, NotAnAncestorError):
        return None
