"""The change columns: their names, types and order, and batches built with them."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import TerminalError

__all__ = [
    "BATCH",
    "CHANGE_COLUMNS",
    "CHANGE_ORDINAL",
    "CHANGE_TYPE",
    "COMMIT_SNAPSHOT_ID",
    "COMMIT_TIMESTAMP",
    "WEIGHT",
    "ChangeType",
    "change_batch",
    "change_schema",
    "refuse_reserved_columns",
    "removed_rows",
]

BATCH: Final = "_batch"
CHANGE_TYPE: Final = "_change_type"
CHANGE_ORDINAL: Final = "_change_ordinal"
COMMIT_SNAPSHOT_ID: Final = "_commit_snapshot_id"
COMMIT_TIMESTAMP: Final = "_commit_timestamp"
WEIGHT: Final = "_weight"
"""Added to the rows in the shuffle, never to the changes."""

CHANGE_COLUMNS: Final = (BATCH, CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID, COMMIT_TIMESTAMP)
"""The columns that delivered changes have before those of the table."""
_RESERVED: Final = (*CHANGE_COLUMNS, WEIGHT)
_FIELDS: Final = (
    pa.field(BATCH, pa.int64()),
    pa.field(CHANGE_TYPE, pa.string()),
    pa.field(CHANGE_ORDINAL, pa.int32()),
    pa.field(COMMIT_SNAPSHOT_ID, pa.int64()),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", tz="UTC")),
)


class ChangeType(IntEnum):
    """The codes of ``_change_type``; the column holds the names."""

    INSERT = 0
    DELETE = 1
    UPDATE_BEFORE = 2
    UPDATE_AFTER = 3


def removed_rows(counts: Mapping[str, int]) -> int:
    """Changes that take a row away, of counts by change type in lower case.

    >>> removed_rows({"insert": 5, "delete": 2, "update_before": 1, "update_after": 1})
    3
    """
    return sum(counts.get(kind.name.lower(), 0) for kind in (ChangeType.DELETE, ChangeType.UPDATE_BEFORE))


def change_schema(table_schema: pa.Schema, *, with_batch: bool) -> pa.Schema:
    """The change columns, then the table's; ``_batch`` comes first, in delivered changes only."""
    return pa.schema([*_FIELDS[0 if with_batch else 1 :], *table_schema])


def change_batch(
    rows: pa.RecordBatch,
    *,
    change_types: NDArray[np.uint8],
    change_ordinals: NDArray[np.int32],
    snapshot_ids: NDArray[np.int64],
    timestamps_us: NDArray[np.int64],
    batch_number: int | None,
) -> pa.RecordBatch:
    """Rows with their change columns.

    Args:
        snapshot_ids: of the steps, by change ordinal.
        timestamps_us: of the steps, in microseconds since 1970 in UTC.
        batch_number: value of ``_batch``; None leaves the column out.
    """
    names = pa.array([kind.name for kind in ChangeType])
    columns = [
        names.take(pa.array(change_types)),
        pa.array(change_ordinals, pa.int32()),
        pa.array(snapshot_ids[change_ordinals], pa.int64()),
        pa.array(timestamps_us[change_ordinals], pa.timestamp("us", tz="UTC")),
    ]
    if batch_number is not None:
        columns.insert(0, pa.repeat(pa.scalar(batch_number, pa.int64()), rows.num_rows))
    schema = change_schema(rows.schema, with_batch=batch_number is not None)
    return pa.RecordBatch.from_arrays([*columns, *rows.columns], schema=schema)


def refuse_reserved_columns(names: Iterable[str], *, table: str) -> None:
    """Refuse columns with our names in any case: readers such as Spark ignore case."""
    for name in names:
        if name.casefold() in _RESERVED:
            raise TerminalError(
                f"column {name} of table {table} has the name of a column that icefloe adds to changes "
                f"({', '.join(_RESERVED)}); rename it in the table",
                table=table,
                column=name,
            )
