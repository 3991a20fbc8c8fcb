"""The change columns: their names, types and order, and batches built with them; rows as Python's values."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import TerminalError

__all__ = ["ChangeColumns", "ChangeType", "plain_rows"]


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


class ChangeType(IntEnum):
    """The codes of ``_change_type``; the column holds the names."""

    INSERT = 0
    DELETE = 1
    UPDATE_BEFORE = 2
    UPDATE_AFTER = 3

    @property
    def weight(self) -> int:
        """The number of rows that a change adds to the table."""
        return 1 if self in (ChangeType.INSERT, ChangeType.UPDATE_AFTER) else -1

    @classmethod
    def removed_rows(cls, counts: Mapping[str, int]) -> int:
        """Changes that take a row away, of counts by change type in lower case.

        >>> ChangeType.removed_rows({"insert": 5, "delete": 2, "update_before": 1, "update_after": 1})
        3
        """
        return sum(counts.get(kind.name.lower(), 0) for kind in (cls.DELETE, cls.UPDATE_BEFORE))


_NAMES: Final = pa.array([kind.name for kind in ChangeType])


class ChangeColumns:
    """The columns that delivered changes have before those of the table, by name."""

    BATCH: Final = "_batch"
    TYPE: Final = "_change_type"
    ORDINAL: Final = "_change_ordinal"
    SNAPSHOT_ID: Final = "_commit_snapshot_id"
    TIMESTAMP: Final = "_commit_timestamp"
    PROPERTIES: Final = "_commit_properties"
    """Values of the snapshot's summary; only in changes of a pipeline that asks for some."""
    VERSION: Final = "_commit_version"
    """Of ``columns_as: delta`` alone."""

    ALL: Final = (BATCH, TYPE, ORDINAL, SNAPSHOT_ID, TIMESTAMP, PROPERTIES)
    WEIGHT: Final = "_weight"
    """Added to the rows in the shuffle, never to the changes."""

    _RESERVED: Final = (*ALL, WEIGHT)
    _FIELDS: Final = (
        pa.field(BATCH, pa.int64()),
        pa.field(TYPE, pa.string()),
        pa.field(ORDINAL, pa.int32()),
        pa.field(SNAPSHOT_ID, pa.int64()),
        pa.field(TIMESTAMP, pa.timestamp("us", tz="UTC")),
        pa.field(PROPERTIES, pa.map_(pa.string(), pa.string())),
    )

    @classmethod
    def schema(cls, table_schema: pa.Schema, *, with_batch: bool, with_properties: bool = False) -> pa.Schema:
        """The change columns, then the table's; ``_batch`` comes first, in delivered changes only."""
        last = len(cls._FIELDS) if with_properties else -1
        return pa.schema([*cls._FIELDS[0 if with_batch else 1 : last], *table_schema])

    @classmethod
    def batch(
        cls,
        rows: pa.RecordBatch,
        *,
        change_types: NDArray[np.uint8],
        change_ordinals: NDArray[np.int32],
        snapshot_ids: NDArray[np.int64],
        timestamps_us: NDArray[np.int64],
        properties: pa.MapArray | None = None,
        batch_number: int | None,
    ) -> pa.RecordBatch:
        """Rows with their change columns.

        Args:
            snapshot_ids: of the steps, by change ordinal.
            timestamps_us: of the steps, in microseconds since 1970 in UTC.
            properties: of the steps; None leaves the column out.
            batch_number: value of ``_batch``; None leaves the column out.
        """
        columns = [
            _NAMES.take(pa.array(change_types)),
            pa.array(change_ordinals, pa.int32()),
            pa.array(snapshot_ids[change_ordinals], pa.int64()),
            pa.array(timestamps_us[change_ordinals], pa.timestamp("us", tz="UTC")),
        ]
        if batch_number is not None:
            columns.insert(0, pa.repeat(pa.scalar(batch_number, pa.int64()), rows.num_rows))
        if properties is not None:
            columns.append(properties.take(pa.array(change_ordinals)))
        schema = cls.schema(rows.schema, with_batch=batch_number is not None, with_properties=properties is not None)
        return pa.RecordBatch.from_arrays([*columns, *rows.columns], schema=schema)

    @classmethod
    def types(cls, changes: pa.RecordBatch) -> NDArray[np.uint8]:
        """`ChangeType` of each change."""
        codes = pc.index_in(changes.column(cls.TYPE), value_set=_NAMES).fill_null(len(_NAMES))
        return codes.to_numpy(zero_copy_only=False).astype(np.uint8)

    @classmethod
    def weights(cls, changes: pa.RecordBatch) -> NDArray[np.int64]:
        """1 for each change that adds a row, -1 for one that removes it."""
        return np.array([kind.weight for kind in ChangeType], np.int64)[cls.types(changes)]

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
