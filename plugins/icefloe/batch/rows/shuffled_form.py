"""The form of rows on their way through the shuffle, as a map task writes them and a reduce task finds them."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from icefloe.batch.rows.row_shape import RowShape
from icefloe.batch.rows.weighted_rows import WeightedRows
from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes, row_hashes_of_batch
from icefloe.iceberg.schemas.identifier_columns import identity_columns

__all__ = ["ShuffledForm"]

_IDENTITY: Final = "_identity"


class RowsToShuffle(NamedTuple):
    """Rows in the shuffled form, ready to be written.

    Attributes:
        batch: the rows.
        row_hashes: hashes of their delivered columns.
        identity_hashes: hashes that route them.
    """

    batch: pa.RecordBatch
    row_hashes: RowHashes
    identity_hashes: RowHashes


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledForm:
    """The shuffled form of rows: the delivered columns and, if these do not show it, the identity's hash."""

    shape: RowShape

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows, without weight and change ordinal."""
        if not self.shape.is_identity_carried:
            return self.shape.delivered.arrow
        return self.shape.delivered.arrow.append(pa.field(_IDENTITY, RowHashes.COLUMN_TYPE, nullable=False))

    @property
    def has_identity(self) -> bool:
        """True if the rows have an identity other than the whole row."""
        return bool(self.shape.identity)

    def to_shuffle(self, rows: WeightedRows) -> RowsToShuffle:
        """Changed rows in the shuffled form."""
        delivered, hashes = self.to_deliver(rows)
        if not self.shape.identity:
            return RowsToShuffle(delivered, hashes, hashes)
        identities = row_hashes(self.shape.identity_of(rows.batch), key=self.shape.hash_key)
        if not self.shape.is_identity_carried:
            return RowsToShuffle(delivered, hashes, identities)
        identities = self._known(rows.batch, identities, hashes)
        columns = [*delivered.columns, identities.to_column()]
        return RowsToShuffle(pa.RecordBatch.from_arrays(columns, schema=self.schema), hashes, identities)

    def to_deliver(self, rows: WeightedRows) -> tuple[pa.RecordBatch, RowHashes]:
        """The delivered columns of changed rows, and their hashes."""
        if not self.shape.is_identity_carried:
            return rows.batch, rows.row_hashes
        delivered = self.shape.without_identity(rows.batch)
        return delivered, row_hashes_of_batch(delivered, key=self.shape.hash_key)

    def identities(self, rows: pa.RecordBatch | pa.Table) -> RowHashes:
        """The hashes that routed shuffled rows: of their identity, or of the whole row if there is none.

        Args:
            rows: shuffled rows, without weight and change ordinal.
        """
        if self.shape.is_identity_carried:
            return RowHashes.of_column(rows.column(rows.num_columns - 1))
        columns = identity_columns(rows, self.shape.identity) if self.shape.identity else rows.columns
        return row_hashes(columns, key=self.shape.hash_key)

    def row_hashes(self, rows: pa.Table | pa.RecordBatch, *, key: int | None = None) -> RowHashes:
        """The hashes of the delivered columns of shuffled rows, under the key of the batch or another one."""
        return row_hashes(self.without_identity(rows).columns, key=self.shape.hash_key if key is None else key)

    def without_identity(self, rows: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
        """The delivered columns of shuffled rows."""
        return rows.select(range(len(self.shape.delivered.arrow)))

    def _known(self, compared: pa.RecordBatch, identities: RowHashes, hashes: RowHashes) -> RowHashes:
        """Replaces the identity of rows without a row id, from before their table had any, by the row itself."""
        if not self.shape.has_row_id:
            return identities
        # All of them have the id null. As one identity they would fill one reduce partition, and unlike rows would be
        # paired.
        [row_ids] = self.shape.identity_of(compared)
        if not row_ids.null_count:
            return identities
        is_known = row_ids.is_valid().to_numpy(zero_copy_only=False)
        return RowHashes(
            np.where(is_known, identities.high, hashes.high), np.where(is_known, identities.low, hashes.low)
        )
