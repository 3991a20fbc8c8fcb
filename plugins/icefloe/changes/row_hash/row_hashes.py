"""The one row hash: 128 bits, defined in docs/developers/formats.md, section "Row hash"."""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.changes.row_hash.column_hash import add_column
from icefloe.changes.row_hash.mixing import BLOCK_ROWS, HashSums, Mixer, Seed, key_seed

__all__ = ["RowHashes"]


_MODULUS: Final = 1 << 128
_SUMMED_ROWS: Final = 65_536
_LIMB: Final = np.uint64(0xFFFF_FFFF)
_S32 = np.uint64(32)
_IN_COLUMN: Final = np.dtype([("high", ">u8"), ("low", ">u8")])


@dataclass(frozen=True, slots=True, eq=False)
class RowHashes:
    """The 128-bit hashes of rows, ``high * 2^64 + low``: one uint64 per row in both arrays."""

    COLUMN_TYPE: ClassVar = pa.binary(16)
    """Type of hashes as a column of Arrow: 16 bytes each, the upper half first, both halves big-endian."""

    PUBLIC_KEY: ClassVar = 0
    """For hashes that only put rows in an order, the same in all batches, or propose rows that are then compared."""

    high: NDArray[np.uint64]
    low: NDArray[np.uint64]

    def __post_init__(self) -> None:
        if not self.high.dtype == self.low.dtype == np.uint64 or self.high.shape != self.low.shape:
            raise ValueError(
                f"row hashes are two uint64 arrays of one length, found {self.high.dtype} {self.high.shape} and "
                f"{self.low.dtype} {self.low.shape}"
            )

    @staticmethod
    def new_key() -> int:
        """A key that nobody knew when the rows were written. Hashes under two keys cannot be compared."""
        return secrets.randbits(128)

    @classmethod
    def of(cls, columns: Sequence[pa.Array | pa.ChunkedArray], *, key: int) -> "RowHashes":
        """The hash of each row of columns of one length, under a key of 128 bits.

        The layout of equal rows has no effect: offsets, chunks, dictionaries, widths of integers, floats, decimals. A
        column's position counts, its name does not. Different rows have different hashes for all but one of 2^80 keys,
        if the key was drawn after the rows.

        >>> hashes = RowHashes.of([pa.array([1, None]), pa.array(["a", "b"])], key=7)
        >>> f"{hashes[0]:032x}"
        '5c8dacb6307e487e9180825cb65493a8'
        """
        lengths = {len(column) for column in columns}
        if len(lengths) != 1:
            raise ValueError(f"columns of one length were expected, found {len(columns)} with the lengths {lengths}")
        root = key_seed(key)
        sums = HashSums.keyed(lengths.pop(), root)
        mixer = Mixer()
        seeds = [root.child(position) for position in range(len(columns))]
        with np.errstate(over="ignore", invalid="ignore"):  # numbers wrap around; a NaN may be a signalling one
            # All columns of a block before the next block, so that its sums stay in the cache.
            for start in range(0, len(sums.low), BLOCK_ROWS):
                piece = sums.slice(start, start + BLOCK_ROWS)
                for column, seed in zip(columns, seeds, strict=True):
                    _add_chunks(column.slice(start, BLOCK_ROWS), seed, mixer, piece)
                piece.scramble()
        return cls(sums.high, sums.low)

    @classmethod
    def of_batch(cls, batch: pa.RecordBatch | pa.Table, names: Sequence[str] | None = None, *, key: int) -> "RowHashes":
        """The row hashes over the named columns, in the order of the names; None: all."""
        return cls.of(batch.columns if names is None else [batch.column(name) for name in names], key=key)

    @staticmethod
    def among(rows: Sequence[pa.Array], wanted: Sequence[pa.Array]) -> pa.Array:
        """Mask of the rows equal to a wanted row; columns of the same types, in the same order.

        >>> RowHashes.among([pa.array([1, None, 3])], [pa.array([3, None])]).to_pylist()
        [False, True, True]
        """
        key = RowHashes.new_key()
        return pc.is_in(RowHashes.of(rows, key=key).to_column(), RowHashes.of(wanted, key=key).to_column())

    @classmethod
    def concat(cls, parts: Iterable["RowHashes"]) -> "RowHashes":
        """The hashes of all parts in order."""
        given = list(parts)
        if len(given) == 1:
            return given[0]
        nothing = np.zeros(0, np.uint64)
        return cls(
            np.concatenate([nothing, *(part.high for part in given)]),
            np.concatenate([nothing, *(part.low for part in given)]),
        )

    @classmethod
    def of_column(cls, column: pa.Array | pa.ChunkedArray) -> "RowHashes":
        """The hashes in a column of `COLUMN_TYPE` without nulls."""
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        parts = []
        for chunk in filter(len, chunks):
            data = np.frombuffer(chunk.buffers()[1], _IN_COLUMN, len(chunk), chunk.offset * _IN_COLUMN.itemsize)
            parts.append(cls(data["high"].astype(np.uint64), data["low"].astype(np.uint64)))
        return cls.concat(parts)

    def to_column(self) -> pa.Array:
        """The hashes as a column of `COLUMN_TYPE`.

        >>> RowHashes(np.array([1], np.uint64), np.array([258], np.uint64)).to_column()[0].as_py().hex()
        '00000000000000010000000000000102'
        """
        values = np.empty(len(self), _IN_COLUMN)
        values["high"], values["low"] = self.high, self.low
        return pa.FixedSizeBinaryArray.from_buffers(self.COLUMN_TYPE, len(values), [None, pa.py_buffer(values)])

    def __len__(self) -> int:
        return len(self.high)

    def __getitem__(self, place: int) -> int:
        return int(self.high[place]) << 64 | int(self.low[place])

    def take(self, positions: NDArray[np.integer]) -> "RowHashes":
        """The hashes of the rows at ``positions``."""
        return RowHashes(self.high[positions], self.low[positions])

    def equals(self, other: "RowHashes") -> bool:
        """True if both hold the same hashes in the same order."""
        return np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)

    def modulo(self, divisor: int) -> NDArray[np.int32]:
        """The remainders of the 128-bit numbers, for a divisor from 1 to 65,536."""
        if not 1 <= divisor <= 65_536:
            raise ValueError(f"a divisor from 1 to 65536 was expected, found {divisor}")
        if divisor & (divisor - 1) == 0:
            return (self.low & np.uint64(divisor - 1)).astype(np.int32)
        # high * 2^64 + low, taken apart. With a divisor of at most 65,536 nothing here exceeds 2^33.
        remainders = _modulo(self.high, divisor) * np.uint64((1 << 64) % divisor) + _modulo(self.low, divisor)
        return _modulo(remainders, divisor).astype(np.int32)

    def signed_sum(self, weights: NDArray[np.int64]) -> int:
        """The sum of hash times weight, mod 2^128, exact for any weights and number of rows."""
        if len(weights) != len(self):
            raise ValueError(f"one weight per row was expected, found {len(weights)} for {len(self)} rows")
        total = 0
        for start in range(0, len(self), _SUMMED_ROWS):
            piece = slice(start, start + _SUMMED_ROWS)
            total += _signed_sum(self.high[piece], self.low[piece], weights[piece])
        return total % _MODULUS


def _add_chunks(column: pa.Array | pa.ChunkedArray, seed: Seed, mixer: Mixer, sums: HashSums) -> None:
    start = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if len(chunk):
            add_column(chunk, seed, mixer, sums.slice(start, start + len(chunk)))
        start += len(chunk)


def _modulo(values: NDArray[np.uint64], divisor: int) -> NDArray[np.uint64]:
    """``values % divisor``: NumPy divides eight at a time, but takes remainders one by one."""
    return values - values // np.uint64(divisor) * np.uint64(divisor)


def _signed_sum(high: NDArray[np.uint64], low: NDArray[np.uint64], weights: NDArray[np.int64]) -> int:
    """Sum of limbs of 32 bits times parts of 15 bits: 65,536 such products add up to less than 2^63."""
    limbs = [half.view(np.int64) for half in (low & _LIMB, low >> _S32, high & _LIMB, high >> _S32)]
    total = 0
    # Digits of 15 bits, the lowest first; the last keeps the sign, as two's complement has it.
    for shift, digits in _weight_parts(weights):
        total += sum(int(np.dot(limb, digits)) << 32 * index for index, limb in enumerate(limbs)) << shift
    return total


def _weight_parts(weights: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    if int(weights.min()) >= -(1 << 15) and int(weights.max()) < 1 << 15:
        yield 0, weights
        return
    for shift in (0, 15, 30, 45):
        yield shift, weights >> shift & 0x7FFF
    yield 60, weights >> 60
