"""``icefloe trace``: what became of one row."""

import json
import math
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any, Final

from icefloe.changes.columns import (
    BATCH,
    CHANGE_COLUMNS,
    CHANGE_ORDINAL,
    CHANGE_TYPE,
    COMMIT_SNAPSHOT_ID,
    COMMIT_TIMESTAMP,
)
from icefloe.cli.pipeline_session import load_named_pipeline, open_session
from icefloe.cli.row_trace import trace_row
from icefloe.cli.screen import Screen
from icefloe.pipeline.error_lines import with_lines

_COLUMNS: Final = ("batch", "change", "commit", "committed at", "row")


def trace(arguments: Namespace, screen: Screen) -> int:
    """Shows the changes of a row, and where the row is now."""
    with screen.under_way("looking for the row"):
        session = open_session(load_named_pipeline(arguments))
        with session.delivery_sink() as sink, with_lines(session.pipeline):
            found = trace_row(session, sink, arguments.key)
    for note in found.notes:
        screen.say(f"note: {note}")
    if found.changes or found.pending:
        screen.table(_COLUMNS, [_line(change) for change in (*found.changes, *found.pending)], numbers=("batch",))
    name = " ".join(f"{column}={value}" for column, value in found.key.items())
    if not (found.changes or found.pending or found.table_rows):
        screen.say(f"{session.pipeline.table} has no row with {name}, and no change of it was delivered")
    screen.facts(
        [
            ("row", name),
            *_row_lines(f"in {session.pipeline.table}", found.table_rows),
            *(
                [("in the sink", "not asked")]
                if found.sink_rows is None
                else _row_lines("in the sink", found.sink_rows)
            ),
        ]
    )
    if arguments.json:
        screen.json(
            {
                "pipeline": session.pipeline.name,
                "table": session.pipeline.table,
                "key": found.key,
                "changes": [_document(change) for change in found.changes],
                "pending": [_document(change) for change in found.pending],
                "table_rows": _plain(found.table_rows),
                "sink_rows": None if found.sink_rows is None else _plain(found.sink_rows),
                "notes": found.notes,
            }
        )
    return 0


def _line(change: Mapping[str, Any]) -> tuple[str, ...]:
    batch, time = change[BATCH], change.get(COMMIT_TIMESTAMP)
    return (
        "not yet" if batch is None else str(batch),
        change[CHANGE_TYPE],
        str(change.get(COMMIT_SNAPSHOT_ID, "-")),
        "-" if time is None else time.isoformat(timespec="seconds"),
        json.dumps(_plain(_row(change))),
    )


def _document(change: Mapping[str, Any]) -> dict[str, Any]:
    snapshot_id, time = change.get(COMMIT_SNAPSHOT_ID), change.get(COMMIT_TIMESTAMP)
    return {
        "batch": change[BATCH],
        "change_type": change[CHANGE_TYPE],
        "change_ordinal": change.get(CHANGE_ORDINAL),
        "commit_snapshot_id": None if snapshot_id is None else str(snapshot_id),
        "commit_timestamp": None if time is None else time.isoformat(),
        "row": _plain(_row(change)),
    }


def _row(change: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in change.items() if name not in CHANGE_COLUMNS}


def _row_lines(name: str, rows: Sequence[Mapping[str, object]]) -> list[tuple[str, str]]:
    texts = [json.dumps(_plain(row)) for row in rows] or ["no row"]
    return [("" if number else name, text) for number, text in enumerate(texts)]


def _plain(value: object) -> object:
    """Rows and what is in them in values of JSON.

    Dates and decimals are text. ``NaN``, ``Infinity`` and ``-Infinity`` are text too: JSON has no such numbers.
    """
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)
