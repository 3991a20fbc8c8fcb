"""Extents: the blocks of a reduce range, planned once so that readers only fetch.

Twenty thousand map outputs of four thousand partitions have 80 million blocks. So blocks are ordered group by group,
and groups past the first go to local disk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError
from icefloe.shuffle.coalesce import NUM_PARTS, WHOLE, ReduceRange, order_by_reduce_id, part_ids, reduce_ids
from icefloe.shuffle.committed_output import CommittedOutput
from icefloe.shuffle.index_file import OrdinalSums, PartitionStatistics
from icefloe.storage.local_folders import KeepsLocalFiles, on_local_disk, scratch_file, task_folder

__all__ = ["CollectedBlocks", "RangeExtents"]

BLOCK: Final = np.dtype(
    [("output", "u4"), ("reduce_id", "u4"), ("crc32", "u4"), ("offset", "i8"), ("length", "i8"), ("rows", "i8"),
     ("part", "u1")]
)  # fmt: skip
"""One block that has rows: its map output by place, its partition, its CRC-32, its bytes in the data file, its part."""


class ShuffledFile(NamedTuple):
    """The data file of a map output.

    Attributes:
        data_size_bytes: another size in the store means damage.
        largest_block_bytes: uncompressed; nothing larger is allocated for a block.
    """

    map_id: int
    generation: int
    data_key: str
    data_size_bytes: int
    largest_block_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RangeExtents:
    """All that a reduce task fetches, and the sums that its rows must add up to.

    Attributes:
        blocks: array of `BLOCK`, by map output, then by reduce partition, as in the data file.
        ordinals: sums over the range without shared blocks; the reduce task checks its rows against them.
    """

    range_id: int
    start: int
    stop: int
    files: Sequence[ShuffledFile]
    blocks: NDArray[Any]
    ordinals: tuple[OrdinalSums, ...]
    parts: tuple[int, int] | None = None

    @property
    def most_rows(self) -> int:
        """Rows of the range; shared blocks count whole."""
        return int(self.blocks["rows"].sum())

    @property
    def size_bytes(self) -> int:
        """Compressed bytes of all blocks."""
        return int(self.blocks["length"].sum())

    def own_rows(self, identity_hashes: RowHashes) -> NDArray[np.int64]:
        """The positions of the range's rows among rows of its partition."""
        first, stop = self.parts or (0, NUM_PARTS)
        parts = part_ids(identity_hashes)
        return np.flatnonzero((parts >= first) & (parts < stop))

    @property
    def num_places(self) -> int:
        """Places of the rows: one for each partition of the range, or the parts of its only one."""
        return NUM_PARTS if self.stop == self.start + 1 else self.stop - self.start

    def places(self, identity_hashes: RowHashes, num_partitions: int) -> NDArray[np.int32]:
        """The place of each row of the range, in the order in which they are read."""
        if self.stop == self.start + 1:
            return part_ids(identity_hashes).astype(np.int32)
        return reduce_ids(identity_hashes, num_partitions) - np.int32(self.start)

    def of_partition(self, reduce_id: int) -> "RangeExtents":
        """The blocks of one reduce partition of the range."""
        own = self.blocks[self.blocks["reduce_id"] == reduce_id]
        return replace(self, start=reduce_id, stop=reduce_id + 1, blocks=own)


def pieces_of(blocks: NDArray[Any]) -> Iterator[tuple[int, int, int]]:
    """Place of each data file, and the bytes from its first to its last block."""
    first = np.flatnonzero(np.diff(blocks["output"].astype(np.int64), prepend=-1))
    last = np.append(first, len(blocks))[1:] - 1
    stops = blocks["offset"][last] + blocks["length"][last]
    return zip(blocks["output"][first].tolist(), blocks["offset"][first].tolist(), stops.tolist(), strict=True)


_MASK: Final = np.uint64(0xFFFF_FFFF)
_HALF: Final = np.uint64(32)


class PartitionSums:
    """Its size depends on partitions and ordinals, not on the number of map outputs."""

    def __init__(self, num_partitions: int) -> None:
        self._num_partitions = num_partitions
        self._ordinals: list[int] = []
        self._rows = np.zeros(0, np.int64)
        self._signed_counts = np.zeros(0, np.int64)
        # The hash sums in digits of 32 bits, lowest first: 2^32 map outputs fit before a digit overflows.
        self._digits = [np.zeros(0, np.uint64) for _ in range(4)]

    def add(self, statistics: PartitionStatistics) -> None:
        ordinals, places = np.unique(statistics.change_ordinals, return_inverse=True)
        cells = self._places(ordinals)[places] * self._num_partitions + statistics.reduce_ids
        # A map output has one entry for each partition and ordinal, so no cell comes twice and plain indexing adds.
        self._rows[cells] += statistics.rows
        self._signed_counts[cells] += statistics.signed_counts
        low, high = statistics.hash_low, statistics.hash_high
        for digit, more in zip(self._digits, (low & _MASK, low >> _HALF, high & _MASK, high >> _HALF), strict=True):
            digit[cells] += more

    def partition_rows(self) -> NDArray[np.int64]:
        return self._rows.reshape(-1, self._num_partitions).sum(axis=0)

    def of(self, start: int, stop: int) -> tuple[OrdinalSums, ...]:
        """Per change ordinal; ``stop`` is exclusive."""
        found = []
        for place, ordinal in sorted(enumerate(self._ordinals), key=lambda each: each[1]):
            cells = slice(place * self._num_partitions + start, place * self._num_partitions + stop)
            rows = int(self._rows[cells].sum())
            if rows:
                digits = [sum(digit[cells].tolist()) << (32 * number) for number, digit in enumerate(self._digits)]
                found.append(
                    OrdinalSums(
                        change_ordinal=ordinal,
                        rows=rows,
                        signed_count=int(self._signed_counts[cells].sum()),
                        hash_sum=sum(digits) % (1 << 128),
                    )
                )
        return tuple(found)

    def _places(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """New ordinals get the next place."""
        new = [ordinal for ordinal in ordinals.tolist() if ordinal not in self._ordinals]
        if new:
            self._ordinals += new
            more = len(new) * self._num_partitions
            self._rows, self._signed_counts, *self._digits = (
                np.concatenate([each, np.zeros(more, each.dtype)])
                for each in (self._rows, self._signed_counts, *self._digits)
            )
        return np.array([self._ordinals.index(ordinal) for ordinal in ordinals.tolist()], np.int64)


_CANNOT_KEEP: Final = "the blocks of the map outputs cannot be put in order"
_GROUP_BLOCKS: Final = 1 << 20
_WINDOW_BLOCKS: Final = 1 << 20
_NO_BLOCKS: Final = np.empty(0, BLOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Blocks of neighbouring map outputs, ordered by reduce partition, then by map output.

    Attributes:
        starts: ``num_partitions + 1`` int64: the place of the first block of each partition.
        position: in the file on local disk; None: they are in memory.
    """

    starts: NDArray[np.int64]
    blocks: NDArray[Any]
    position: int | None = None


class CollectedBlocks(KeepsLocalFiles):
    """Takes map outputs one by one, then gives the extents of each range.

    Use it as a context manager: it owns temporary files.

    Args:
        disk: None: the machine's temporary folder.

    Attributes:
        part_bytes: compressed bytes of the 64 parts of divided reduce partitions.
        epoch: sum of the generations; it changes if a map output is made again.
    """

    def __init__(self, num_partitions: int, *, disk: Path | None = None) -> None:
        super().__init__()
        self._num_partitions = num_partitions
        self._disk = disk
        self._file: BinaryIO | None = None
        self._groups: list[_Group] = []
        self._waiting: list[NDArray[Any]] = []
        self._waiting_blocks = 0
        self._sums = PartitionSums(num_partitions)
        self._part_sums: dict[int, PartitionSums] = {}
        self.part_bytes: dict[int, NDArray[np.int64]] = {}
        self.files: list[ShuffledFile] = []
        self.partition_bytes = np.zeros(num_partitions, np.int64)
        self.epoch = 0

    def add(self, output: CommittedOutput) -> None:
        """Takes the next map output, in the order of the map ids planned."""
        record, data, numbers = output.record, output.record.data, output.numbers
        self.epoch += record.generation
        lengths = np.diff(output.offsets)
        filled = np.flatnonzero(lengths)
        if data is None or not len(filled):
            return
        blocks = np.empty(len(filled), BLOCK)
        blocks["output"] = len(self.files)
        blocks["reduce_id"] = numbers.reduce_ids()[filled]
        blocks["crc32"] = output.block_crc32[filled]
        blocks["offset"] = record.blocks_at + output.offsets[filled]
        blocks["length"] = lengths[filled]
        blocks["rows"] = output.statistics.partition_rows(len(numbers))[filled]
        blocks["part"] = numbers.parts()[filled]
        size_bytes = record.blocks_at + data.size_bytes
        self.files.append(
            ShuffledFile(record.map_id, record.generation, data.key, size_bytes, record.largest_block_bytes)
        )
        self.partition_bytes += np.add.reduceat(lengths, numbers.firsts())
        self._sums.add(output.partition_statistics)
        for reduce_id in numbers.divided:
            first = int(numbers.firsts()[reduce_id])
            of_parts = self.part_bytes.setdefault(reduce_id, np.zeros(NUM_PARTS, np.int64))
            of_parts += lengths[first : first + NUM_PARTS]
            self._part_sums.setdefault(reduce_id, PartitionSums(NUM_PARTS)).add(output.part_statistics(reduce_id))
        self._waiting.append(blocks)
        self._waiting_blocks += len(blocks)
        if self._waiting_blocks >= _GROUP_BLOCKS:
            self._end_group(on_disk=True)

    def extents(self, ranges: Sequence[ReduceRange]) -> Iterator[RangeExtents]:
        """The extents of each range, in ascending order. No map output can be added any more."""
        self._require_covered(ranges)
        if self._waiting:
            self._end_group(on_disk=False)
        for window in self._windows(ranges):
            loaded = [self._loaded(group, window[0].start, window[-1].stop) for group in self._groups]
            for each in window:
                blocks = _by_output([_within(group, window[0].start, each) for group in loaded])
                yield RangeExtents(
                    range_id=each.range_id,
                    start=each.start,
                    stop=each.stop,
                    parts=each.parts,
                    files=self.files,
                    blocks=blocks,
                    ordinals=self._sums_of(each),
                )

    def _sums_of(self, of: ReduceRange) -> tuple[OrdinalSums, ...]:
        if of.parts is None:
            return self._sums.of(of.start, of.stop)
        # Every map output may be made again, and then in one block.
        sums = self._part_sums.get(of.start)
        return () if sums is None else sums.of(*of.parts)

    def _require_covered(self, ranges: Sequence[ReduceRange]) -> None:
        rows = self._sums.partition_rows()
        for each in ranges:
            rows[each.start : each.stop] = 0
        if rows.any():
            raise TerminalError(
                f"reduce partition {int(np.flatnonzero(rows)[0])} has rows and no reduce range covers it; the ranges "
                "belong to other map outputs, report this as a bug"
            )

    def _end_group(self, *, on_disk: bool) -> None:
        blocks = np.concatenate(self._waiting)
        self._waiting, self._waiting_blocks = [], 0
        order, counts = order_by_reduce_id(blocks["reduce_id"].astype(np.int32), self._num_partitions)
        starts, blocks = np.concatenate([[0], np.cumsum(counts)]), blocks[order]
        if not on_disk:
            self._groups.append(_Group(starts=starts, blocks=blocks))
            return
        with on_local_disk(_CANNOT_KEEP):
            if self._file is None:
                folder = self._owned.enter_context(task_folder("coalesce", self._disk))
                self._file = self._owned.enter_context(scratch_file((folder / "blocks").open("w+b")))
            self._groups.append(_Group(starts=starts, blocks=_NO_BLOCKS, position=self._file.tell()))
            self._file.write(blocks.tobytes())

    def _windows(self, ranges: Sequence[ReduceRange]) -> Iterator[list[ReduceRange]]:
        """About `_WINDOW_BLOCKS` blocks, at least one range."""
        window: list[ReduceRange] = []
        size = 0
        for each in ranges:
            blocks = sum(int(group.starts[each.stop] - group.starts[each.start]) for group in self._groups)
            if window and size + blocks > _WINDOW_BLOCKS:
                yield window
                window, size = [], 0
            window.append(each)
            size += blocks
        if window:
            yield window

    def _loaded(self, group: _Group, start: int, stop: int) -> _Group:
        first, last = int(group.starts[start]), int(group.starts[stop])
        starts = group.starts[start : stop + 1] - first
        if group.position is None or self._file is None:
            return _Group(starts=starts, blocks=group.blocks[first:last])
        with on_local_disk(_CANNOT_KEEP):
            self._file.seek(group.position + first * BLOCK.itemsize)
            data = self._file.read((last - first) * BLOCK.itemsize)
        return _Group(starts=starts, blocks=np.frombuffer(data, BLOCK))


def _within(group: _Group, first_partition: int, of: ReduceRange) -> NDArray[Any]:
    start, stop = group.starts[[of.start - first_partition, of.stop - first_partition]].tolist()
    blocks = group.blocks[start:stop]
    if of.parts is None:
        return blocks
    # A block that was not divided has rows of all parts, so every range of the partition reads it.
    first_part, stop_part = of.parts
    parts = blocks["part"]
    return blocks[(parts == WHOLE) | ((parts >= first_part) & (parts < stop_part))]


def _by_output(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Blocks of one map output keep the order of their partitions."""
    blocks = np.concatenate([_NO_BLOCKS, *parts])
    outputs = blocks["output"].astype(np.int64)
    # One partition is in this order already, whatever the number of groups.
    return blocks if (outputs[1:] >= outputs[:-1]).all() else blocks[np.argsort(outputs, kind="stable")]
