"""Hash rows: a row's hash next to the hash of its identity, kept by row hash (docs/developers/formats.md).

Rows are routed by identity, so equal rows of two identities meet in no reduce partition. Their hash rows meet in one
hash partition. The hash partitions of a map output follow its reduce partitions and are numbered on from them:

    partition     0   1   2   3   4   5          6   7
                  rows, by identity hash         hash rows, by row hash
"""

from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.blocks import BlockRows, block_schema

__all__ = ["HashRows"]

_SCHEMA: Final = block_schema(
    pa.schema([pa.field(name, RowHashes.COLUMN_TYPE, nullable=False) for name in ("_row", "_identity")])
)


class HashRows(NamedTuple):
    """Hash rows; all of one length.

    Attributes:
        row_hashes: hash of each row.
        identity_hashes: hash of its identity.
        change_ordinals: its step.
        weights: its weight.
    """

    row_hashes: RowHashes
    identity_hashes: RowHashes
    change_ordinals: NDArray[np.int32]
    weights: NDArray[np.int64]

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Self:
        """The hash rows in a batch."""
        hashes, weights, ordinals = BlockRows.of(batch)
        row_column, identity_column = hashes.columns
        return cls(RowHashes.of_column(row_column), RowHashes.of_column(identity_column), ordinals, weights)

    @staticmethod
    def schema() -> pa.Schema:
        """The schema of hash rows in blocks."""
        return _SCHEMA

    @property
    def batch(self) -> pa.RecordBatch:
        """The hash rows as a batch of the schema."""
        ours = [pa.array(self.weights, pa.int64()), pa.array(self.change_ordinals, pa.int32())]
        columns = [self.row_hashes.to_column(), self.identity_hashes.to_column(), *ours]
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
