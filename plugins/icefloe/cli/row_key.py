"""The key of one row, as it is written on the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.changes.row_hash.row_hashes import row_hashes
from icefloe.errors import UsageError
from icefloe.iceberg.schemas.identifier_columns import (
    ColumnPath,
    has_columns,
    identity_columns,
    resolve_identifier_columns,
)
from icefloe.iceberg.schemas.table_schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKey:
    """The value of each identifier column.

    Attributes:
        texts: the values as they were written, by the dotted name of the column.
        paths: paths of the columns, in the same order.
        values: one row, whose columns have the types and dotted names of the identifier columns.
    """

    texts: Mapping[str, str]
    paths: tuple[ColumnPath, ...]
    values: pa.RecordBatch

    @classmethod
    def parse(cls, given: Sequence[str], schema: TableSchema, identity: Sequence[str]) -> Self:
        """The key in arguments such as ``id=4``; the name may be left out if there is one identifier column.

        Args:
            given: the arguments.
            schema: schema of the table.
            identity: dotted names of the identifier columns; empty: any columns may be named.

        Raises:
            UsageError: a column is missing or unknown, or a value does not fit its type.
        """
        whole = " ".join(given)
        named = len(identity) != 1 or whole.startswith(f"{identity[0]}=")
        texts = dict(each.split("=", 1) for each in given if "=" in each) if named else {identity[0]: whole}
        if not texts or (identity and set(texts) != set(identity)):
            names = " ".join(f"{name}=VALUE" for name in identity) or "COLUMN=VALUE"
            raise UsageError(f"{whole!r} names no row: write {names}", columns=tuple(identity))
        ordered = list(identity) or list(texts)
        paths = resolve_identifier_columns(schema.columns, ordered)
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema.arrow], schema.arrow.names)
        columns = [
            _value(texts[name], column.type, name)
            for name, column in zip(ordered, identity_columns(empty, paths), strict=True)
        ]
        return cls(
            texts={name: texts[name] for name in ordered},
            paths=paths,
            values=pa.RecordBatch.from_arrays(columns, ordered),
        )

    @property
    def filter(self) -> str:
        """The rows of this key, as an Iceberg expression."""
        return " and ".join(f"{name} = {_literal(column)}" for name, column in self._items())

    def rows_in(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that have this key."""
        wanted = row_hashes(self.values.columns).to_column()
        found = row_hashes(identity_columns(batch, self.paths)).to_column()
        places = np.flatnonzero(pc.is_in(found, wanted).to_numpy(zero_copy_only=False))
        return batch.take(pa.array(places))

    def is_shown_by(self, schema: pa.Schema) -> bool:
        """True if rows of a schema show this key."""
        return has_columns(schema, self.paths)

    def _items(self) -> list[tuple[str, pa.Array]]:
        return list(zip(self.values.schema.names, self.values.columns, strict=True))


def _value(text: str, kind: pa.DataType, name: str) -> pa.Array:
    try:
        return pa.array([text], pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        raise UsageError(f"{name}={text} is no value of the type {kind}: write it as the table has it") from cause


def _literal(column: pa.Array) -> str:
    value: object = column[0].as_py()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return "'" + text.replace("'", "''") + "'"
