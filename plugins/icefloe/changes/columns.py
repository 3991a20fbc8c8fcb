"""The change columns: their names, types and order, and batches built with them; rows as Python's values."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import TerminalError

__all__ = ["ChangeColumns", "ChangeType", "plain_rows", "rows_not_copied"]


def plain_rows(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Each row by column names; a date or time that Python does not have is ISO 8601 text.

    Python has the years 1 to 9999, and nanoseconds only with pandas, which icefloe does not need.

    >>> plain_rows(pa.table({"day": pa.array([0, 2932897], pa.date32())}))
    [{'day': datetime.date(1970, 1, 1)}, {'day': '10000-01-01'}]
    """
    try:
        found: list[dict[str, Any]] = rows.to_pylist()
    except (OverflowError, ValueError):
        columns = [[_plain(value) for value in column] for column in rows.columns]
        found = [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def _plain(value: pa.Scalar) -> Any:
    if isinstance(value, pa.MapScalar) and value.is_valid:
        return [(_plain(entry[0]), _plain(entry[1])) for entry in value.values]
    if isinstance(value, pa.ListScalar) and value.is_valid:
        return [_plain(each) for each in value.values]
    if isinstance(value, pa.StructScalar) and value.is_valid:
        return {name: _plain(each) for name, each in value.items()}
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        if not pa.types.is_temporal(value.type):
            raise
        unit: Any = value.type.unit if pa.types.is_timestamp(value.type) else "D"
        zone = "Z" if pa.types.is_timestamp(value.type) and value.type.tz else ""
        return f"{np.datetime64(value.value, unit)}{zone}"


Numbers = NDArray[np.int64]


def rows_not_copied(
    removed_ids: Numbers, removed_sequence_numbers: Numbers, added_ids: Numbers, added_sequence_numbers: Numbers
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The positions of removed and added rows without a copy on the other side, by row id and sequence number.

    None if a row id is twice on one side. Needs about 40 bytes per row; ascending ids are faster.

    >>> rows_not_copied(*(np.array(numbers) for numbers in ([7, 8, 9], [1, 1, 1], [9, 8, 10], [1, 2, 2])))
    (array([0, 1]), array([1, 2]))
    """
    # A stable sort of two ascending runs only merges them, and puts a removed row before its copy.
    ids = np.concatenate((removed_ids, added_ids))
    order = np.argsort(ids, kind="stable")
    in_order = ids[order]
    places = np.flatnonzero(in_order[1:] == in_order[:-1])
    one, other = order[places], order[places + 1]
    num_removed = len(removed_ids)
    if not ((one < num_removed) & (other >= num_removed)).all():
        return None
    other -= num_removed
    is_copy = removed_sequence_numbers[one] == added_sequence_numbers[other]
    return _all_but(one[is_copy], num_removed), _all_but(other[is_copy], len(added_ids))


def _all_but(positions: NDArray[np.int64], num_rows: int) -> NDArray[np.int64]:
    is_left = np.ones(num_rows, np.bool_)
    is_left[positions] = False
    return np.flatnonzero(is_left)


class ChangeType(IntEnum):
    """The codes of ``_change_type``; the column holds the names."""

    INSERT = 0
    DELETE = 1
    UPDATE_BEFORE = 2
    UPDATE_AFTER = 3

    @classmethod
    def removed_rows(cls, counts: Mapping[str, int]) -> int:
        """Changes that take a row away, of counts by change type in lower case.

        >>> ChangeType.removed_rows({"insert": 5, "delete": 2, "update_before": 1, "update_after": 1})
        3
        """
        return sum(counts.get(kind.name.lower(), 0) for kind in (cls.DELETE, cls.UPDATE_BEFORE))


class ChangeColumns:
    """The columns that delivered changes have before those of the table, by name."""

    BATCH: Final = "_batch"
    TYPE: Final = "_change_type"
    ORDINAL: Final = "_change_ordinal"
    SNAPSHOT_ID: Final = "_commit_snapshot_id"
    TIMESTAMP: Final = "_commit_timestamp"
    ALL: Final = (BATCH, TYPE, ORDINAL, SNAPSHOT_ID, TIMESTAMP)
    WEIGHT: Final = "_weight"
    """Added to the rows in the shuffle, never to the changes."""

    _RESERVED: Final = (*ALL, WEIGHT)
    _FIELDS: Final = (
        pa.field(BATCH, pa.int64()),
        pa.field(TYPE, pa.string()),
        pa.field(ORDINAL, pa.int32()),
        pa.field(SNAPSHOT_ID, pa.int64()),
        pa.field(TIMESTAMP, pa.timestamp("us", tz="UTC")),
    )

    @classmethod
    def schema(cls, table_schema: pa.Schema, *, with_batch: bool) -> pa.Schema:
        """The change columns, then the table's; ``_batch`` comes first, in delivered changes only."""
        return pa.schema([*cls._FIELDS[0 if with_batch else 1 :], *table_schema])

    @classmethod
    def batch(
        cls,
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
        schema = cls.schema(rows.schema, with_batch=batch_number is not None)
        return pa.RecordBatch.from_arrays([*columns, *rows.columns], schema=schema)

    @classmethod
    def refuse_in(cls, names: Iterable[str], *, table: str) -> None:
        """Refuse columns with our names in any case: readers such as Spark ignore case."""
        for name in names:
            if name.casefold() in cls._RESERVED:
                raise TerminalError(
                    f"column {name} of table {table} has the name of a column that icefloe adds to changes "
                    f"({', '.join(cls._RESERVED)}); rename it in the table",
                    table=table,
                    column=name,
                )
