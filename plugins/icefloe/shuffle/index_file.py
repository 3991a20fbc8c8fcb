"""Index files: position and contents of each block of a data file (docs/developers/formats.md).

``num_blocks + 1`` big-endian signed 64-bit offsets, then the statistics: a header, fixed-width entries, the CRC-32 of
each block and one of all that.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.documents import Document, Hash128

__all__ = ["OrdinalSums"]

_MASK: Final = np.uint64(0xFFFF_FFFF)
_HALF: Final = np.uint64(32)
_EXACT_WEIGHTS: Final = 1 << 30
"""Up to this sum of absolute weights the sums of 32-bit limbs and their carries fit into 63 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdinalSums(Document):
    """Sums of the rows of one change ordinal.

    Attributes:
        rows: whatever their weights.
        signed_count: the sum of their weights.
        hash_sum: row hashes times weights, mod 2^128.
    """

    change_ordinal: int
    rows: int
    signed_count: int
    hash_sum: Hash128


def grouped_hash_sums(
    high: NDArray[np.uint64], low: NDArray[np.uint64], weights: NDArray[np.int64] | None, starts: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The signed sum of hashes of each group of neighbours, mod 2^128, as high and low halves.

    >>> one = np.ones(3, np.uint64)
    >>> [half.tolist() for half in grouped_hash_sums(0 * one, one, np.array([1, 1, -1]), np.array([0, 2]))]
    [[0, 18446744073709551615], [2, 18446744073709551615]]
    """
    if not len(starts):
        return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    limbs = [low & _MASK, low >> _HALF, high & _MASK, high >> _HALF]
    largest = 1 if weights is None else max(-int(weights.min()), int(weights.max()))
    kind = np.int64 if largest * len(low) <= _EXACT_WEIGHTS else object  # Python's integers for weights no table has
    # As on paper, in digits of 32 bits: each digit is added up by itself, then carries go from the lowest digit up. A
    # negative carry borrows, because >> rounds down.
    digits = (limb.astype(kind) for limb in limbs)
    weighed = digits if weights is None else (digit * weights.astype(kind) for digit in digits)
    signed = [np.add.reduceat(digit, starts) for digit in weighed]
    carried = []
    carry = np.zeros(len(starts), kind)
    for limb_sum in signed:
        total = limb_sum + carry
        carried.append((total & 0xFFFF_FFFF).astype(np.uint64))
        carry = total >> 32
    return carried[3] << _HALF | carried[2], carried[1] << _HALF | carried[0]


def encode_index(offsets: NDArray[np.int64]) -> bytes:
    """The beginning of an index file, for ``num_blocks + 1`` offsets.

    >>> encode_index(np.array([0, 258])).hex()
    '00000000000000000000000000000102'
    """
    return offsets.astype(">i8").tobytes()


def index_bytes(num_blocks: int) -> int:
    return 8 * (num_blocks + 1)


def decode_index(data: bytes, *, num_blocks: int, data_size_bytes: int) -> NDArray[np.int64]:
    """The offsets; block ``i`` is bytes ``offsets[i]`` to ``offsets[i + 1]`` of the data file."""
    expected_bytes = index_bytes(num_blocks)
    if len(data) != expected_bytes:
        raise ValueError(f"{len(data)} bytes, but {num_blocks} blocks take {expected_bytes}")
    offsets = np.frombuffer(data, ">i8").astype(np.int64)
    # Equal neighbours are an empty block:  |0 0|1 1 1 1|3 3| has the offsets 0 2 6 6 8.
    if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("its offsets do not rise from 0")
    if offsets[-1] != data_size_bytes:
        raise ValueError(f"it ends at {offsets[-1]}, but the data file has {data_size_bytes} bytes")
    return offsets


_MAGIC: Final = b"IFST"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sIII")
_TRAILER: Final = struct.Struct(">I")
_ENTRY: Final = np.dtype(
    [("reduce_ids", ">i4"), ("change_ordinals", ">i4"), ("rows", ">i8"), ("signed_counts", ">i8"), ("hash_high", ">u8"),
     ("hash_low", ">u8")]
)  # fmt: skip
_ORDINAL_BITS: Final = 32
_ENTRIES_MERGED_AT: Final = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatistics:
    """One entry per non-empty (reduce partition, change ordinal), ascending."""

    reduce_ids: NDArray[np.int64]
    change_ordinals: NDArray[np.int64]
    rows: NDArray[np.int64]  # whatever their weights
    signed_counts: NDArray[np.int64]
    hash_high: NDArray[np.uint64]
    hash_low: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def empty(cls) -> Self:
        none, no_hashes = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        counts = dict.fromkeys(("reduce_ids", "change_ordinals", "rows", "signed_counts"), none)
        return cls(**counts, hash_high=no_hashes, hash_low=no_hashes)

    @classmethod
    def of_rows(
        cls,
        *,
        reduce_ids: NDArray[np.int32],
        change_ordinals: NDArray[np.int32],
        weights: NDArray[np.int64],
        row_hashes: RowHashes,
    ) -> Self:
        return cls._grouped(
            reduce_ids=reduce_ids.astype(np.int64),
            change_ordinals=change_ordinals.astype(np.int64),
            rows=np.ones(len(weights), np.int64),
            signed_counts=weights,
            hashes=(row_hashes.high, row_hashes.low),
            hash_weights=weights,
        )

    @classmethod
    def merged(cls, parts: Sequence[Self]) -> Self:
        arrays = {name: np.concatenate([getattr(each, name) for each in parts]) for name in cls.__slots__}
        hashes = arrays.pop("hash_high"), arrays.pop("hash_low")
        return cls._grouped(**arrays, hashes=hashes, hash_weights=None)

    def partition_rows(self, num_partitions: int) -> NDArray[np.int64]:
        """Over all ordinals."""
        rows = np.zeros(num_partitions, np.int64)
        np.add.at(rows, self.reduce_ids, self.rows)
        return rows

    def sums(self, start: int, stop: int) -> tuple[OrdinalSums, ...]:
        """Per change ordinal; ``stop`` is exclusive."""
        first, last = np.searchsorted(self.reduce_ids, [start, stop])
        picked = slice(first, last)
        by_ordinal = self._grouped(
            reduce_ids=np.zeros(last - first, np.int64),
            change_ordinals=self.change_ordinals[picked],
            rows=self.rows[picked],
            signed_counts=self.signed_counts[picked],
            hashes=(self.hash_high[picked], self.hash_low[picked]),
            hash_weights=None,
        )
        return tuple(
            OrdinalSums(change_ordinal=ordinal, rows=rows, signed_count=signed_count, hash_sum=high << 64 | low)
            for ordinal, rows, signed_count, high, low in zip(
                by_ordinal.change_ordinals.tolist(), by_ordinal.rows.tolist(), by_ordinal.signed_counts.tolist(),
                by_ordinal.hash_high.tolist(), by_ordinal.hash_low.tolist(), strict=True,
            )
        )  # fmt: skip

    @classmethod
    def _grouped(
        cls,
        *,
        reduce_ids: NDArray[np.int64],
        change_ordinals: NDArray[np.int64],
        rows: NDArray[np.int64],
        signed_counts: NDArray[np.int64],
        hashes: tuple[NDArray[np.uint64], NDArray[np.uint64]],
        hash_weights: NDArray[np.int64] | None,
    ) -> Self:
        # One number for both keys, so that one sort groups by both.
        groups = reduce_ids << _ORDINAL_BITS | change_ordinals
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        hash_high, hash_low = grouped_hash_sums(
            hashes[0][order], hashes[1][order], None if hash_weights is None else hash_weights[order], starts
        )
        return cls(
            reduce_ids=ordered[starts] >> _ORDINAL_BITS,
            change_ordinals=ordered[starts] & ((1 << _ORDINAL_BITS) - 1),
            rows=np.add.reduceat(rows[order], starts) if len(starts) else rows,
            signed_counts=np.add.reduceat(signed_counts[order], starts) if len(starts) else signed_counts,
            hash_high=hash_high,
            hash_low=hash_low,
        )


class GatheredStatistics:
    def __init__(self) -> None:
        self._merged = PartitionStatistics.empty()
        self._new: list[PartitionStatistics] = []
        self._new_entries = 0

    def add(self, statistics: PartitionStatistics) -> None:
        self._new.append(statistics)
        self._new_entries += len(statistics)
        # Once there are as many new entries as merged ones: so each entry is merged a few times, not once for each
        # chunk.
        if self._new_entries > max(_ENTRIES_MERGED_AT, len(self._merged)):
            self.total()

    def total(self) -> PartitionStatistics:
        self._merged = PartitionStatistics.merged([self._merged, *self._new])
        self._new, self._new_entries = [], 0
        return self._merged


def encode_statistics(statistics: PartitionStatistics, block_crc32: NDArray[np.uint32]) -> bytes:
    entries = np.empty(len(statistics), _ENTRY)
    for name in PartitionStatistics.__slots__:
        entries[name] = getattr(statistics, name)
    header = _HEADER.pack(_MAGIC, _VERSION, len(block_crc32), len(entries))
    body = header + entries.tobytes() + block_crc32.astype(">u4").tobytes()
    return body + _TRAILER.pack(zlib.crc32(body))


def decode_statistics(data: bytes, *, num_partitions: int) -> tuple[PartitionStatistics, NDArray[np.uint32]]:
    if len(data) < _HEADER.size + _TRAILER.size:
        raise ValueError(f"{len(data)} bytes are too few")
    magic, version, partitions, count = _HEADER.unpack_from(data)
    if _TRAILER.unpack(data[-_TRAILER.size :])[0] != zlib.crc32(data[: -_TRAILER.size]):
        raise ValueError("its checksum does not match")
    if (magic, version, partitions) != (_MAGIC, _VERSION, num_partitions):
        raise ValueError(f"it is version {version} for {partitions} partitions, not {_VERSION} for {num_partitions}")
    if len(data) != _HEADER.size + count * _ENTRY.itemsize + 4 * partitions + _TRAILER.size:
        raise ValueError(f"{len(data)} bytes do not hold {count} entries")
    entries = np.frombuffer(data, _ENTRY, count, _HEADER.size)
    block_crc32 = np.frombuffer(data, ">u4", partitions, _HEADER.size + entries.nbytes)
    columns: dict[str, NDArray[Any]] = {
        name: entries[name].astype(np.uint64 if name.startswith("hash") else np.int64)
        for name in PartitionStatistics.__slots__
    }
    return PartitionStatistics(**columns), block_crc32.astype(np.uint32)
