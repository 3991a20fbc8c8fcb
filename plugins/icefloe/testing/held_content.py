"""The comparison of the content of a destination with the table that was delivered."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final

import pyarrow as pa

from icefloe.changes.columns import BATCH, change_schema
from icefloe.sinks.sink import Sink
from icefloe.testing.not_conforming import NotConformingError
from icefloe.testing.staged_history import Row, StagedHistory

_SHOWN: Final = 3


def require_content(
    sink: Sink,
    history: StagedHistory,
    *,
    without: Collection[int] = (),
    among: Collection[int] | None = None,
) -> None:
    """Compare what a sink holds with the table: the rows of a keyed sink, the changes per key of another.

    Args:
        sink: the sink.
        history: the table, with the changes since its last load.
        without: ids of rows that the destination refused for good.
        among: the only ids to be compared, because another writer writes there too; None: all.

    Raises:
        NotConformingError: they differ.
    """
    if sink.keyed:
        expected: dict[int, list[Row]] = {key: [row] for key, row in history.rows.items()}
        schema = history.shown
    else:
        expected = _by_id(history.changes)
        schema = change_schema(history.shown, with_batch=True)
    # Without an identity a log has no keys, and promises no order.
    if "id" not in schema.names or not history.identity:
        _require_rows(_read(sink, schema), [row for rows in expected.values() for row in rows], schema)
        return
    held = _by_id(row for row in _read(sink, schema) if _is_recent(row, history))
    keys = {*held, *expected} if among is None else {*among}
    for key in sorted(keys - {*without}):
        # Columns that the destination does not show are not compared.
        wanted = [{name: row.get(name) for name in schema.names} for row in expected.get(key, [])]
        if held.get(key, []) != wanted:
            raise NotConformingError(
                f"the destination holds {_shown(held.get(key, []))} for id {key}; expected {_shown(wanted)}"
            )


def require_some(sink: Sink, history: StagedHistory, ids: Collection[int]) -> None:
    """Compare the rows or changes of some keys, read by these keys, with the table.

    Raises:
        NotConformingError: they differ, or rows of other keys were read.
    """
    schema = history.shown if sink.keyed else change_schema(history.shown, with_batch=True)
    keys = pa.record_batch({"id": pa.array(sorted(ids), history.schema.field("id").type)})
    rows = [row for row in _read(sink, schema, keys) if _is_recent(row, history)]
    wanted = history.rows.values() if sink.keyed else history.changes
    _require_rows(rows, [row for row in wanted if row["id"] in ids], schema)


def _read(sink: Sink, schema: pa.Schema, keys: pa.RecordBatch | None = None) -> list[Row]:
    rows: list[Row] = []
    for batch in sink.read_back(schema, keys=keys):
        if not batch.schema.equals(schema):
            raise NotConformingError(f"read_back gives the columns {_line(batch.schema)}; expected {_line(schema)}")
        rows += batch.to_pylist()
    return rows


def _require_rows(rows: list[Row], wanted: list[Row], schema: pa.Schema) -> None:
    held, expected = (Counter(tuple(row.get(name) for name in schema.names) for row in each) for each in (rows, wanted))
    if held != expected:
        raise NotConformingError(
            f"the destination holds {_shown(list((held - expected).elements()))} in excess, and lacks "
            f"{_shown(list((expected - held).elements()))}"
        )


def _by_id(rows: Any) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["id"]].append(row)
    return dict(found)


def _is_recent(row: Mapping[str, Any], history: StagedHistory) -> bool:
    """True for rows of a keyed sink, and for changes since the last load: a log may keep what was before."""
    return BATCH not in row or row[BATCH] >= (history.load_batch_number or 0)


def _shown(rows: list[Any]) -> str:
    return f"{rows[:_SHOWN]} and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else str(rows)


def _line(schema: pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema)
