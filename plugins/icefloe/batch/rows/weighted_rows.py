"""Changed rows, which a map task hands on: rows with the weight that they have in each step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.rows.row_set import Positions, RowSet
from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["Effect", "WeightedRows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of a step on rows of one file."""

    change_ordinal: int
    weight: int
    rows: RowSet = RowSet.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedRows:
    """Rows with weights.

    Attributes:
        batch: compared rows (see `RowShape`).
        row_hashes: hash of each row.
        change_ordinals: int32, of each row.
        weights: int64, of each row.
    """

    batch: pa.RecordBatch
    row_hashes: RowHashes
    change_ordinals: NDArray[np.int32]
    weights: NDArray[np.int64]

    @classmethod
    def of(cls, batch: pa.RecordBatch, hashes: RowHashes, positions: Positions, effects: Sequence[Effect]) -> Self:
        """The rows of a batch, once for every effect that they have.

        Args:
            batch: rows at ``positions`` of their file.
            hashes: hashes of the rows.
            positions: positions of the rows.
            effects: on the file.
        """
        picks = [effect.rows.among(positions) for effect in effects]
        rows = [len(pick) for pick in picks]
        ordinals = np.repeat(np.array([effect.change_ordinal for effect in effects], np.int32), rows)
        weights = np.repeat(np.array([effect.weight for effect in effects], np.int64), rows)
        if len(effects) == 1 and rows[0] == batch.num_rows:
            return cls(batch=batch, row_hashes=hashes, change_ordinals=ordinals, weights=weights)
        taken = np.concatenate(picks)
        return cls(
            batch=batch.take(pa.array(taken)), row_hashes=hashes.take(taken), change_ordinals=ordinals, weights=weights
        )
