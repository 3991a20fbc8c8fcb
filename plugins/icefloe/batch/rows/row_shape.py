"""The shapes of a batch's rows: the columns that are read, compared, shuffled and delivered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

from icefloe.batch.rows.file_effects import WeightedRows
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.batch_spec import Identity
from icefloe.errors import about_key
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.schemas.column_paths import IdentifierColumns
from icefloe.iceberg.schemas.table_schema import TableSchema

__all__ = ["RowShape"]

_IDENTITY: Final = "_identity"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """The shape of one batch's rows on their way.

    Read rows have every top-level column that is needed for anything. Compared rows have the delivered columns,
    followed by identifier columns if these lack one: a map task cancels only rows that are equal in both. Shuffled rows
    have the delivered columns and, if these do not show it, the identity's hash. Delivered rows have the columns that
    changes have.

    Attributes:
        delivered: columns of changes: rows that are equal in them are equal.
        row_filter: None: all rows count.
        identity: identifier columns among the read columns; empty: whole rows are their own identity.
        is_identity_carried: True if compared rows carry the identity after the delivered columns.
    """

    read: TableSchema
    delivered: TableSchema
    row_filter: RowFilter | None
    identity: IdentifierColumns
    is_identity_carried: bool
    hash_key: int

    @classmethod
    def of(
        cls,
        table_schema: TableSchema,
        *,
        identity: Identity,
        columns: Sequence[str] | None,
        filter_text: str | None,
        table: str,
        filter_as_written: str | None = None,
        hash_key: int | None = None,
    ) -> Self:
        """The shape of the rows of a batch.

        Args:
            columns: to deliver; None: all.
            filter_text: an Iceberg expression; None: every row counts.
            filter_as_written: ``${ENV}`` unexpanded, for errors; None: it has no ``${ENV}``.
            hash_key: of the row hashes; None: a new one, for rows that are compared with no task's.
        """
        with about_key("columns"):
            delivered = table_schema if columns is None else table_schema.select(columns)
        with about_key("filter"):
            row_filter = None
            if filter_text is not None:
                row_filter = RowFilter.parse(filter_text, table_schema.columns, table=table, written=filter_as_written)
        # Columns id, a, c; delivered are a; the filter is c > 0; the identity is id:
        #   read       a c id
        #   compared   a + id
        #   shuffled   a + hash of id
        #   delivered  a
        has_row_id = identity.policy == "row_id"
        own = IdentifierColumns.named(table_schema.columns, identity.columns)
        wanted = {*delivered.arrow.names, *(path[0] for path in own.paths), *(row_filter.columns if row_filter else ())}
        read = table_schema if len(wanted) == len(table_schema.arrow) else table_schema.select(sorted(wanted))
        return cls(
            read=read.with_row_id() if has_row_id else read,
            delivered=delivered,
            row_filter=row_filter,
            identity=IdentifierColumns(((TableSchema.ROW_ID,),)) if has_row_id else own,
            is_identity_carried=has_row_id or bool(own.missing_in(delivered.arrow)),
            hash_key=RowHashes.new_key() if hash_key is None else hash_key,
        )

    @property
    def has_row_id(self) -> bool:
        """Files may leave row ids to be inherited."""
        return self.identity.names == (TableSchema.ROW_ID,)

    @property
    def compared_schema(self) -> pa.Schema:
        """Schema of compared rows, text decoded."""
        # Arrow's own empty table cannot hold uuids inside other types.
        nothing = pa.RecordBatch.from_arrays(
            [pa.nulls(0, field.type) for field in self.read.arrow], self.read.arrow.names
        )
        carried = [pa.field(f"_identity_{place}", column.type) for place, column in enumerate(self._carried(nothing))]
        return pa.schema([*self.delivered.arrow, *carried])

    def compared(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Read rows as compared rows; dictionary-encoded text stays so."""
        if not self.is_identity_carried and self.read.arrow.equals(self.delivered.arrow):
            return rows
        columns = [_narrowed(rows.column(field.name), field.type) for field in self.delivered.arrow]
        columns += self._carried(rows)
        return pa.RecordBatch.from_arrays(columns, names=self.compared_schema.names)

    def without_identity(self, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        """The delivered columns of compared or shuffled rows, text decoded."""
        return rows.select(range(len(self.delivered.arrow))) if self.is_identity_carried else rows

    def identity_of(self, compared: pa.RecordBatch) -> list[pa.Array]:
        """The identifier values; empty if whole rows are their own identity."""
        if self.is_identity_carried:
            return list(compared.columns[len(self.delivered.arrow) :])
        return self.identity.values(compared)

    def _carried(self, rows: pa.RecordBatch | pa.Table) -> list[Any]:
        return self.identity.values(rows) if self.is_identity_carried else []

    @property
    def shuffled_schema(self) -> pa.Schema:
        """Schema of shuffled rows without weight and change ordinal."""
        if not self.is_identity_carried:
            return self.delivered.arrow
        return self.delivered.arrow.append(pa.field(_IDENTITY, RowHashes.COLUMN_TYPE, nullable=False))

    @property
    def has_identity(self) -> bool:
        """False if whole rows are their own identity."""
        return bool(self.identity)

    def to_shuffle(self, rows: WeightedRows) -> tuple[pa.RecordBatch, RowHashes, RowHashes]:
        """Changed rows in the shuffled form, the hashes of rows, and those of identities."""
        delivered, hashes = self.to_deliver(rows)
        if not self.identity:
            return delivered, hashes, hashes
        identities = RowHashes.of(self.identity_of(rows.batch), key=self.hash_key)
        if not self.is_identity_carried:
            return delivered, hashes, identities
        identities = self._known(rows.batch, identities, hashes)
        columns = [*delivered.columns, identities.to_column()]
        return pa.RecordBatch.from_arrays(columns, schema=self.shuffled_schema), hashes, identities

    def to_deliver(self, rows: WeightedRows) -> tuple[pa.RecordBatch, RowHashes]:
        """The delivered columns, and their hashes."""
        if not self.is_identity_carried:
            return rows.batch, rows.row_hashes
        delivered = self.without_identity(rows.batch)
        return delivered, RowHashes.of_batch(delivered, key=self.hash_key)

    def identities(self, rows: pa.RecordBatch | pa.Table) -> RowHashes:
        """The hashes that routed shuffled rows: of their identity, or of the whole row if there is none."""
        if self.is_identity_carried:
            return RowHashes.of_column(rows.column(rows.num_columns - 1))
        columns = self.identity.values(rows) if self.identity else rows.columns
        return RowHashes.of(columns, key=self.hash_key)

    def row_hashes(self, rows: pa.Table | pa.RecordBatch, *, key: int | None = None) -> RowHashes:
        """Hashes of the delivered columns, under the key of the batch or another one."""
        return RowHashes.of(self.without_identity(rows).columns, key=self.hash_key if key is None else key)

    def _known(self, compared: pa.RecordBatch, identities: RowHashes, hashes: RowHashes) -> RowHashes:
        """Rows from before their table had row ids are their own identity."""
        if not self.has_row_id:
            return identities
        # All of them have the id null. As one identity they would fill one reduce partition, and unlike rows would be
        # paired.
        [row_ids] = self.identity_of(compared)
        if not row_ids.null_count:
            return identities
        is_known = row_ids.is_valid().to_numpy(zero_copy_only=False)
        return RowHashes(
            np.where(is_known, identities.high, hashes.high), np.where(is_known, identities.low, hashes.low)
        )


def _narrowed(array: Any, target: pa.DataType) -> Any:
    """Structs with only the wanted fields."""
    if not pa.types.is_struct(target) or array.type.equals(target):
        return array
    children = [_narrowed(array.field(field.name), field.type) for field in target]
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
