"""Extents: the blocks of a reduce range, planned once and stored, so that readers only fetch.

Twenty thousand map outputs of four thousand partitions have 80 million blocks. So blocks are ordered group by group,
and groups past the first go to local disk.

In the store, a head names the data files and the place of a section for each range. Sections follow it, or are an
object of their own (docs/developers/formats.md).
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.documents import digest_of
from icefloe.errors import TerminalError
from icefloe.shuffle.blocks import order_by_reduce_id, reduce_ids
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.committed_output import CommittedOutput
from icefloe.shuffle.index_file import GatheredStatistics, OrdinalSums, PartitionStatistics
from icefloe.storage.local_folders import on_local_disk, scratch_file, task_folder
from icefloe.storage.store import Store

__all__ = ["CollectedBlocks", "RangeExtents", "StoredExtents"]

BLOCK: Final = np.dtype(
    [("output", "u4"), ("reduce_id", "u4"), ("crc32", "u4"), ("offset", "i8"), ("length", "i8"), ("rows", "i8")]
)
"""One block that has rows: its map output by place, its partition, its CRC-32, and its bytes in the data file."""
_PARTS: Final = 64
_PART_SHIFT: Final = np.uint64(58)


class ShuffledFile(NamedTuple):
    """The data file of a map output."""

    map_id: int
    generation: int
    data_key: str
    data_size_bytes: int  # another size in the store means damage
    largest_block_bytes: int  # uncompressed; nothing larger is allocated for a block


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RangeExtents:
    """All that a reduce task fetches, and the sums that its rows must add up to.

    Attributes:
        blocks: array of `BLOCK`, by map output, then by reduce partition, as in the data file.
        ordinals: sums over the range; the reduce task checks its rows against them.
    """

    range_id: int
    start: int
    stop: int
    files: Sequence[ShuffledFile]
    blocks: NDArray[Any]
    ordinals: tuple[OrdinalSums, ...]

    @classmethod
    def of_blocks(
        cls,
        partition: int,
        *,
        blocks: Iterable[tuple[str, int, int, int, int, int, int, int]],
        ordinals: Iterable[OrdinalSums] = (),
    ) -> Self:
        """A partition whose blocks are named one by one.

        Args:
            blocks: file, map id, CRC-32, offset, length, rows, the largest bytes of a block uncompressed, and those of
                the file.
            ordinals: sums of all blocks; equal ordinals add up.
        """
        found = list(blocks)
        return cls(
            range_id=partition,
            start=partition,
            stop=partition + 1,
            files=[ShuffledFile(map_id, 0, key, size, largest) for key, map_id, _, _, _, _, largest, size in found],
            blocks=np.array([(place, partition, *block[2:6]) for place, block in enumerate(found)], BLOCK),
            ordinals=tuple(ordinals),
        )

    @property
    def rows(self) -> int:
        """Rows of the range."""
        return int(self.blocks["rows"].sum())

    @property
    def size_bytes(self) -> int:
        """Compressed bytes of all blocks."""
        return int(self.blocks["length"].sum())

    @property
    def num_places(self) -> int:
        """Places of the rows: one for each partition of the range, or the parts of its only one."""
        return _PARTS if self.stop == self.start + 1 else self.stop - self.start

    def places(self, identity_hashes: RowHashes, num_partitions: int) -> NDArray[np.int32]:
        """The place of each row of the range, in the order in which they are read."""
        if self.stop == self.start + 1:
            # Rows of a partition that does not fit into memory are divided, and then read, by these bits too.
            return (identity_hashes.high >> _PART_SHIFT).astype(np.int32)
        return reduce_ids(identity_hashes, num_partitions) - np.int32(self.start)


def pieces_of(blocks: NDArray[Any]) -> Iterator[tuple[int, int, int]]:
    """Place of each data file, and the bytes from its first to its last block."""
    first = np.flatnonzero(np.diff(blocks["output"].astype(np.int64), prepend=-1))
    last = np.append(first, len(blocks))[1:] - 1
    stops = blocks["offset"][last] + blocks["length"][last]
    return zip(blocks["output"][first].tolist(), blocks["offset"][first].tolist(), stops.tolist(), strict=True)


_CANNOT_KEEP: Final = "the blocks of the map outputs cannot be put in order"
_GROUP_BLOCKS: Final = 1 << 20
_NO_BLOCKS: Final = np.empty(0, BLOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Blocks of neighbouring map outputs, ordered by reduce partition, then by map output."""

    starts: NDArray[np.int64]  # ``num_partitions + 1``: the place of the first block of each partition
    blocks: NDArray[Any]
    position: int | None = None  # in the file on local disk; None: they are in memory


class CollectedBlocks(ExitStack):
    """Takes map outputs one by one, then gives the extents of each range.

    Use it as a context manager: it owns temporary files.

    Attributes:
        epoch: sum of the generations; it changes if a map output is made again.
    """

    def __init__(self, num_partitions: int) -> None:
        super().__init__()
        self._num_partitions = num_partitions
        self._file: BinaryIO | None = None
        self._groups: list[_Group] = []
        self._waiting: list[NDArray[Any]] = []
        self._waiting_blocks = 0
        self._statistics = GatheredStatistics()
        self.files: list[ShuffledFile] = []
        self.partition_bytes = np.zeros(num_partitions, np.int64)
        self.epoch = 0

    def add(self, output: CommittedOutput) -> None:
        """Takes the next map output, in the order of the map ids planned."""
        record, data = output.record, output.record.data
        self.epoch += record.generation
        lengths = np.diff(output.offsets)
        filled = np.flatnonzero(lengths)
        if data is None or not len(filled):
            return
        blocks = np.empty(len(filled), BLOCK)
        blocks["output"] = len(self.files)
        blocks["reduce_id"] = filled
        blocks["crc32"] = output.block_crc32[filled]
        blocks["offset"] = record.blocks_at + output.offsets[filled]
        blocks["length"] = lengths[filled]
        blocks["rows"] = output.statistics.partition_rows(self._num_partitions)[filled]
        size_bytes = record.blocks_at + data.size_bytes
        self.files.append(
            ShuffledFile(record.map_id, record.generation, data.key, size_bytes, record.largest_block_bytes)
        )
        self.partition_bytes += lengths
        self._statistics.add(output.statistics)
        self._waiting.append(blocks)
        self._waiting_blocks += len(blocks)
        if self._waiting_blocks >= _GROUP_BLOCKS:
            self._end_group(on_disk=True)

    def extents(self, ranges: Sequence[ReduceRange]) -> Iterator[RangeExtents]:
        """The extents of each range, in ascending order. No map output can be added any more."""
        statistics = self._statistics.total()
        self._require_covered(ranges, statistics)
        if self._waiting:
            self._end_group(on_disk=False)
        for each in ranges:
            yield RangeExtents(
                range_id=each.range_id,
                start=each.start,
                stop=each.stop,
                files=self.files,
                blocks=_by_output([self._read(group, each) for group in self._groups]),
                ordinals=statistics.sums(each.start, each.stop),
            )

    def write(self, store: Store, key: str, ranges: Sequence[ReduceRange]) -> None:
        """Writes the extents of all ranges, for `StoredExtents`."""
        write_extents(store, key, self.extents(ranges), self.files)

    def _require_covered(self, ranges: Sequence[ReduceRange], statistics: PartitionStatistics) -> None:
        rows = statistics.partition_rows(self._num_partitions)
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
                folder = self.enter_context(task_folder("coalesce"))
                self._file = self.enter_context(scratch_file((folder / "blocks").open("w+b")))
            self._groups.append(_Group(starts=starts, blocks=_NO_BLOCKS, position=self._file.tell()))
            self._file.write(blocks.tobytes())

    def _read(self, group: _Group, of: ReduceRange) -> NDArray[Any]:
        first, last = group.starts[[of.start, of.stop]].tolist()
        if group.position is None or self._file is None:
            return group.blocks[first:last]
        with on_local_disk(_CANNOT_KEEP):
            self._file.seek(group.position + first * BLOCK.itemsize)
            return np.frombuffer(self._file.read((last - first) * BLOCK.itemsize), BLOCK)


def _by_output(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Blocks of one map output keep the order of their partitions."""
    blocks = np.concatenate([_NO_BLOCKS, *parts])
    outputs = blocks["output"].astype(np.int64)
    # One partition is in this order already, whatever the number of groups.
    return blocks if (outputs[1:] >= outputs[:-1]).all() else blocks[np.argsort(outputs, kind="stable")]


_MAGIC: Final = b"IFEX"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sIIIII")
"""With its checksum the same in every version, so that a newer version is not taken for damage."""
_CRC32: Final = struct.Struct(">I")
_RANGE: Final = np.dtype(
    [("start", ">u4"), ("stop", ">u4"), ("crc32", ">u4"), ("offset", ">u8"), ("length", ">u8"), ("rows", ">u8")]
)
_FILE: Final = np.dtype(
    [("map_id", ">u4"), ("generation", ">u4"), ("key_bytes", ">u4"), ("size_bytes", ">u8"), ("largest_block", ">u8")]
)
_SECTION: Final = struct.Struct(">IIII")
_ORDINAL: Final = struct.Struct(">iqqQQ")
_EXTENT: Final = np.dtype([("output", ">u4"), ("blocks", ">u4"), ("offset", ">u8")])
_NARROW: Final = 4
_WIDE: Final = 8
_LOW_HALF: Final = (1 << 64) - 1


def encode_head(ranges: NDArray[Any], files: Sequence[ShuffledFile], sections_key: str = "") -> bytes:
    keys = [file.data_key.encode() for file in files]
    entries = np.array(
        [
            (file.map_id, file.generation, len(key), file.data_size_bytes, file.largest_block_bytes)
            for file, key in zip(files, keys, strict=True)
        ],
        _FILE,
    )
    names = b"".join([*keys, sections_key.encode()])
    header = _HEADER.pack(_MAGIC, _VERSION, len(ranges), len(entries), len(names), len(sections_key.encode()))
    body = ranges.tobytes() + entries.tobytes() + names
    return b"".join([header, _CRC32.pack(zlib.crc32(header)), body, _CRC32.pack(zlib.crc32(body))])


def encode_section(extents: RangeExtents) -> bytes:
    blocks = extents.blocks
    first = np.flatnonzero(np.diff(blocks["output"].astype(np.int64), prepend=-1))
    pieces = np.empty(len(first), _EXTENT)
    pieces["output"], pieces["offset"] = blocks["output"][first], blocks["offset"][first]
    pieces["blocks"] = np.diff(first, append=len(blocks))
    largest = max(int(blocks[name].max(initial=0)) for name in ("length", "rows"))
    width = _NARROW if largest < 1 << 32 else _WIDE
    entries = np.empty(len(blocks), _block_entry(width))
    for name in entries.dtype.names or ():
        entries[name] = blocks[name]
    sums = (
        _ORDINAL.pack(each.change_ordinal, each.rows, each.signed_count, each.hash_sum >> 64, each.hash_sum & _LOW_HALF)
        for each in extents.ordinals
    )
    header = _SECTION.pack(len(extents.ordinals), len(pieces), len(blocks), width)
    return b"".join([header, *sums, pieces.tobytes(), entries.tobytes()])


def decode_section(data: bytes, entry: Any, range_id: int, files: Sequence[ShuffledFile]) -> RangeExtents:
    if (len(data), zlib.crc32(data)) != (entry["length"], entry["crc32"]):
        raise ValueError(f"the section of range {range_id} does not match its checksum")
    ordinals, pieces, count, width = _SECTION.unpack_from(data)
    pieces_at = _SECTION.size + ordinals * _ORDINAL.size
    of_output = np.frombuffer(data, _EXTENT, pieces, pieces_at)
    entries = np.frombuffer(data, _block_entry(width), count, pieces_at + of_output.nbytes)
    blocks = np.empty(count, BLOCK)
    for name in entries.dtype.names or ():
        blocks[name] = entries[name]
    counts = of_output["blocks"].astype(np.int64)
    blocks["output"] = np.repeat(of_output["output"], counts)
    # Blocks of one map output follow each other, so its offset and the lengths give the offsets of all:
    #   offset 100, lengths 7 5 9    ->    100 107 112
    before = np.cumsum(blocks["length"]) - blocks["length"]
    first = np.cumsum(counts) - counts
    blocks["offset"] = before + np.repeat(of_output["offset"].astype(np.int64) - before[first], counts)
    sums = _ORDINAL.iter_unpack(data[_SECTION.size : pieces_at])
    return RangeExtents(
        range_id=range_id,
        start=int(entry["start"]),
        stop=int(entry["stop"]),
        files=files,
        blocks=blocks,
        ordinals=tuple(
            OrdinalSums(change_ordinal=ordinal, rows=rows, signed_count=signed, hash_sum=high << 64 | low)
            for ordinal, rows, signed, high, low in sums
        ),
    )


def _block_entry(width: int) -> np.dtype[Any]:
    wide = f">u{width}"
    return np.dtype([("reduce_id", ">u4"), ("crc32", ">u4"), ("length", wide), ("rows", wide)])


_CANNOT_WRITE: Final = "the extents of the reduce ranges cannot be written to local disk"
_INLINE_BYTES: Final = 256 << 10
"""Sections up to here follow the head: one request writes all, one reads all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExtents:
    """The extents of a shuffle in the store.

    Attributes:
        ranges: array of the start, stop, rows, and section of each range, by range id.
        sections_key: of the object that holds the sections; empty: they follow the head, and are in ``inline``.
    """

    store: Store
    ranges: NDArray[Any]
    files: tuple[ShuffledFile, ...]
    sections_key: str
    inline: bytes

    @staticmethod
    def write(
        store: Store, key: str, files: Iterable[tuple[str, Sequence[int], Sequence[int], Sequence[int], int]]
    ) -> None:
        """Writes those of files with a block for each range: key, offsets, CRC-32, rows, largest block uncompressed."""
        shuffled, of_files = [], []
        for place, (data_key, offsets, crc32, rows, largest_bytes) in enumerate(files):
            shuffled.append(ShuffledFile(place, 0, data_key, offsets[-1], largest_bytes))
            shape: list[Any] = [np.full(len(rows), place), np.arange(len(rows)), crc32]
            of_files.append(np.rec.fromarrays([*shape, offsets[:-1], np.diff(offsets), rows], dtype=BLOCK))
        extents = (
            RangeExtents(
                range_id=of, start=of, stop=of + 1, files=shuffled, blocks=blocks[blocks["rows"] > 0], ordinals=()
            )
            for of, blocks in enumerate(np.stack(of_files, axis=1))
        )
        write_extents(store, key, extents, shuffled)

    @classmethod
    def open(cls, store: Store, key: str) -> Self:
        """Reads the head.

        Raises:
            KeyMissingError: there are no extents.
            ValueError: they are damaged.
        """
        data = store.get(key)
        ranges_at = _HEADER.size + _CRC32.size
        if len(data) < ranges_at or zlib.crc32(data[: _HEADER.size]) != _CRC32.unpack_from(data, _HEADER.size)[0]:
            raise ValueError("their header does not match its checksum")
        magic, version, ranges, files, names_bytes, sections_key_bytes = _HEADER.unpack_from(data)
        if magic != _MAGIC or version != _VERSION:
            raise TerminalError(
                f"extents of version {version} cannot be read by this release, which knows version {_VERSION}; another "
                "release wrote them"
            )
        files_at = ranges_at + ranges * _RANGE.itemsize
        names_at = files_at + files * _FILE.itemsize
        end = names_at + names_bytes
        if len(data) < end + _CRC32.size or zlib.crc32(data[ranges_at:end]) != _CRC32.unpack_from(data, end)[0]:
            raise ValueError("their head does not match its checksum")
        entries = np.frombuffer(data, _FILE, files, files_at)
        stops = (names_at + np.cumsum(entries["key_bytes"], dtype=np.int64)).tolist()
        keys = [data[start:stop].decode() for start, stop in zip([names_at, *stops], stops, strict=False)]
        names = ("map_id", "generation", "size_bytes", "largest_block")
        map_ids, generations, sizes, largest = (entries[name].tolist() for name in names)
        return cls(
            store=store,
            ranges=np.frombuffer(data, _RANGE, ranges, ranges_at),
            files=tuple(map(ShuffledFile, map_ids, generations, keys, sizes, largest)),
            sections_key=data[end - sections_key_bytes : end].decode(),
            inline=data[end + _CRC32.size :],
        )

    def of(self, range_id: int) -> RangeExtents:
        """The extents of one range; raises as `open` does."""
        entry = self.ranges[range_id]
        start = int(entry["offset"])
        stop = start + int(entry["length"])
        if self.sections_key:
            [section] = self.store.get_ranges(self.sections_key, [(start, stop)])
        else:
            section = self.inline[start:stop]
        return decode_section(section, entry, range_id, self.files)


def write_extents(store: Store, key: str, extents: Iterable[RangeExtents], files: Sequence[ShuffledFile]) -> None:
    """The head, under the key, is written last; never holds more than one range."""
    entries: list[tuple[int, ...]] = []
    size_bytes, small = 0, bytearray()
    with ExitStack() as owned:
        file: BinaryIO | None = None
        for each in extents:
            section = encode_section(each)
            entries.append((each.start, each.stop, zlib.crc32(section), size_bytes, len(section), each.rows))
            size_bytes += len(section)
            with on_local_disk(_CANNOT_WRITE):
                if file is None and size_bytes > _INLINE_BYTES:
                    path = owned.enter_context(task_folder("coalesce")) / "sections"
                    file = owned.enter_context(scratch_file(path.open("wb")))
                    file.write(small)
                if file is None:
                    small += section
                else:
                    file.write(section)
        ranges = np.array(entries, _RANGE)
        head = encode_head(ranges, files)
        if file is None:
            store.put(key, head + small)
            return
        with on_local_disk(_CANNOT_WRITE):
            file.close()
        # Called after their content: a writer that comes late, from other attempts of the map tasks, replaces the head
        # by one that names its own sections, and never sections under a head with other places for them.
        sections_key = f"{key}.{digest_of(head)[:16]}.sections"
        store.put(sections_key, path)
        store.put(key, encode_head(ranges, files, sections_key))
