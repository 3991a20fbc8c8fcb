"""The sums by which a batch proves itself."""

from collections.abc import Iterable, Mapping
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError
from icefloe.shuffle.index_file import OrdinalSums

_MODULUS: Final = 1 << 128


class Sums:
    """Per change ordinal, the signed count of rows and the signed sum of row hashes.

    Both are invariant under consolidation, reordering and regrouping. So the sums of the rows that map tasks hand on
    equal the sums of the changes. The plain number of rows is not invariant, and is never compared.
    """

    def __init__(self, sums: Iterable[OrdinalSums] = ()) -> None:
        #   handed on   +a -b +b      3 rows, signed count 1, hash sum a
        #   delivered   +a            1 row, and the same sums
        self._by_ordinal: dict[int, tuple[int, int, int]] = {}
        for each in sums:
            self._add(each.change_ordinal, each.rows, each.signed_count, each.hash_sum)

    def add_rows(self, hashes: RowHashes, change_ordinals: NDArray[np.int32], weights: NDArray[np.int64]) -> None:
        """Adds rows; the three have the same length."""
        for ordinal in np.unique(change_ordinals):
            rows = np.flatnonzero(change_ordinals == ordinal)
            picked = weights[rows]
            self._add(int(ordinal), len(rows), int(picked.sum()), hashes.take(rows).signed_sum(picked))

    def to_documents(self) -> tuple[OrdinalSums, ...]:
        """The sums by ordinal."""
        return tuple(
            OrdinalSums(change_ordinal=ordinal, rows=rows, signed_count=count, hash_sum=hash_sum)
            for ordinal, (rows, count, hash_sum) in sorted(self._by_ordinal.items())
        )

    def signed_counts(self) -> Mapping[int, int]:
        """Inserts less deletes by ordinal."""
        return {ordinal: count for ordinal, (_, count, _) in self._by_ordinal.items()}

    def hash_sum(self) -> int:
        """The hash sum over all ordinals, mod 2^128."""
        return sum(hash_sum for _, _, hash_sum in self._by_ordinal.values()) % _MODULUS

    def require(self, expected: Self, *, what: str, per_ordinal: bool = True) -> None:
        """Checks these sums against the expected sums."""
        these, wanted = self._compared(per_ordinal), expected._compared(per_ordinal)
        for ordinal in sorted(these.keys() | wanted.keys()):
            (count, hash_sum), (wanted_count, wanted_sum) = (each.get(ordinal, (0, 0)) for each in (these, wanted))
            if (count, hash_sum) != (wanted_count, wanted_sum):
                where = f"in change ordinal {ordinal}" if per_ordinal else "over its steps"
                raise TerminalError(
                    f"{what} does not add up {where}: expected {wanted_count} rows net with hash sum "
                    f"{wanted_sum:032x}, found {count} with {hash_sum:032x}; the batch is not delivered, report this "
                    "with the batch's folder",
                )

    def _compared(self, per_ordinal: bool) -> Mapping[int, tuple[int, int]]:
        """By ordinal, or over all ordinals under 0."""
        if per_ordinal:
            return {ordinal: (count, hash_sum) for ordinal, (_, count, hash_sum) in self._by_ordinal.items()}
        return {0: (sum(self.signed_counts().values()), self.hash_sum())}

    def _add(self, ordinal: int, rows: int, count: int, hash_sum: int) -> None:
        old_rows, old_count, old_sum = self._by_ordinal.get(ordinal, (0, 0, 0))
        self._by_ordinal[ordinal] = (old_rows + rows, old_count + count, (old_sum + hash_sum) % _MODULUS)
