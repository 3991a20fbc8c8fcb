"""Extents files: a section for each range (docs/developers/formats.md).

A head names the data files and the place of each section. Sections follow it, or are an object of their own.
"""

import struct
import zlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import numpy as np
from numpy.typing import NDArray

from icefloe.documents import digest_of
from icefloe.errors import TerminalError
from icefloe.shuffle.coalesce import NUM_PARTS, WHOLE
from icefloe.shuffle.extents import BLOCK, RangeExtents, ShuffledFile
from icefloe.shuffle.index_file import OrdinalSums
from icefloe.storage.local_folders import on_local_disk, scratch_file, task_folder
from icefloe.storage.store import Store

__all__ = ["StoredExtents"]

_MAGIC: Final = b"IFEX"
_VERSION: Final = 1
_WITH_PARTS: Final = 1
"""A flag: ranges and blocks name parts."""
_HEADER: Final = struct.Struct(">4sIIIIII")
"""With its checksum the same in every version, so that a newer version is not taken for damage."""
_CRC32: Final = struct.Struct(">I")
_RANGE: Final = np.dtype(
    [("start", ">u4"), ("stop", ">u4"), ("crc32", ">u4"), ("offset", ">u8"), ("length", ">u8"), ("rows", ">u8")]
)
_RANGE_OF_PARTS: Final = np.dtype([*_RANGE.descr, ("first_part", ">u4"), ("stop_part", ">u4")])
_FILE: Final = np.dtype(
    [("map_id", ">u4"), ("generation", ">u4"), ("key_bytes", ">u4"), ("size_bytes", ">u8"), ("largest_block", ">u8")]
)
_SECTION: Final = struct.Struct(">IIII")
_ORDINAL: Final = struct.Struct(">iqqQQ")
_EXTENT: Final = np.dtype([("output", ">u4"), ("blocks", ">u4"), ("offset", ">u8")])
_NARROW: Final = 4
_WIDE: Final = 8
_HALF: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentsHead:
    """The head of the extents of a shuffle.

    Attributes:
        ranges: array of the start, stop, parts, rows, and section of each range, by range id.
        sections_key: of the object that holds the sections; empty: they follow the head.
    """

    ranges: NDArray[Any]
    files: tuple[ShuffledFile, ...]
    sections_key: str = ""
    has_parts: bool = False

    @property
    def rows(self) -> int:
        return int(self.ranges["rows"].sum())

    def section(self, range_id: int) -> tuple[int, int]:
        """Start and stop, counted from the first section."""
        offset, length = (int(self.ranges[range_id][name]) for name in ("offset", "length"))
        return offset, offset + length


def encode_head(head: ExtentsHead) -> bytes:
    keys = [file.data_key.encode() for file in head.files]
    files = np.array(
        [
            (file.map_id, file.generation, len(key), file.data_size_bytes, file.largest_block_bytes)
            for file, key in zip(head.files, keys, strict=True)
        ],
        _FILE,
    )
    names = b"".join([*keys, head.sections_key.encode()])
    flags = _WITH_PARTS * head.has_parts
    counts = len(head.ranges), len(files), len(names), len(head.sections_key.encode())
    header = _HEADER.pack(_MAGIC, _VERSION, flags, *counts)
    kind = _RANGE_OF_PARTS if head.has_parts else _RANGE
    body = head.ranges[list(kind.names or ())].astype(kind).tobytes() + files.tobytes() + names
    return b"".join([header, _CRC32.pack(zlib.crc32(header)), body, _CRC32.pack(zlib.crc32(body))])


def decode_head(data: bytes) -> tuple[ExtentsHead, int]:
    """The head, and its size in bytes."""
    ranges_at = _HEADER.size + _CRC32.size
    if len(data) < ranges_at or zlib.crc32(data[: _HEADER.size]) != _CRC32.unpack_from(data, _HEADER.size)[0]:
        raise ValueError("their header does not match its checksum")
    magic, version, flags, ranges, files, names_bytes, sections_key_bytes = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != _VERSION:
        raise TerminalError(
            f"extents of version {version} cannot be read by this release, which knows version {_VERSION}; another "
            "release wrote them"
        )
    kind = _RANGE_OF_PARTS if flags & _WITH_PARTS else _RANGE
    files_at = ranges_at + ranges * kind.itemsize
    names_at = files_at + files * _FILE.itemsize
    end = names_at + names_bytes
    if len(data) < end + _CRC32.size or zlib.crc32(data[ranges_at:end]) != _CRC32.unpack_from(data, end)[0]:
        raise ValueError("their head does not match its checksum")
    entries = np.frombuffer(data, _FILE, files, files_at)
    stops = (names_at + np.cumsum(entries["key_bytes"], dtype=np.int64)).tolist()
    keys = [data[start:stop].decode() for start, stop in zip([names_at, *stops], stops, strict=False)]
    names = ("map_id", "generation", "size_bytes", "largest_block")
    map_ids, generations, sizes, largest = (entries[name].tolist() for name in names)
    head = ExtentsHead(
        ranges=np.frombuffer(data, kind, ranges, ranges_at),
        files=tuple(map(ShuffledFile, map_ids, generations, keys, sizes, largest)),
        sections_key=data[end - sections_key_bytes : end].decode(),
        has_parts=bool(flags & _WITH_PARTS),
    )
    return head, end + _CRC32.size


def encode_section(extents: RangeExtents, *, has_parts: bool = False) -> bytes:
    blocks = extents.blocks
    first = np.flatnonzero(np.diff(blocks["output"].astype(np.int64), prepend=-1))
    pieces = np.empty(len(first), _EXTENT)
    pieces["output"], pieces["offset"] = blocks["output"][first], blocks["offset"][first]
    pieces["blocks"] = np.diff(first, append=len(blocks))
    largest = max(int(blocks[name].max(initial=0)) for name in ("length", "rows"))
    width = _NARROW if largest < 1 << 32 else _WIDE
    entries = np.empty(len(blocks), _block_entry(width, has_parts=has_parts))
    for name in entries.dtype.names or ():
        entries[name] = blocks[name]
    sums = (
        _ORDINAL.pack(each.change_ordinal, each.rows, each.signed_count, each.hash_sum >> 64, each.hash_sum & _HALF)
        for each in extents.ordinals
    )
    header = _SECTION.pack(len(extents.ordinals), len(pieces), len(blocks), width)
    return b"".join([header, *sums, pieces.tobytes(), entries.tobytes()])


def decode_section(data: bytes, head: ExtentsHead, range_id: int) -> RangeExtents:
    entry = head.ranges[range_id]
    if (len(data), zlib.crc32(data)) != (entry["length"], entry["crc32"]):
        raise ValueError(f"the section of range {range_id} does not match its checksum")
    ordinals, pieces, count, width = _SECTION.unpack_from(data)
    pieces_at = _SECTION.size + ordinals * _ORDINAL.size
    of_output = np.frombuffer(data, _EXTENT, pieces, pieces_at)
    entries = np.frombuffer(data, _block_entry(width, has_parts=head.has_parts), count, pieces_at + of_output.nbytes)
    blocks = np.empty(count, BLOCK)
    blocks["part"] = WHOLE
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
    parts = (int(entry["first_part"]), int(entry["stop_part"])) if head.has_parts else (0, NUM_PARTS)
    return RangeExtents(
        range_id=range_id,
        start=int(entry["start"]),
        stop=int(entry["stop"]),
        parts=None if parts == (0, NUM_PARTS) else parts,
        files=head.files,
        blocks=blocks,
        ordinals=tuple(
            OrdinalSums(change_ordinal=ordinal, rows=rows, signed_count=signed, hash_sum=high << 64 | low)
            for ordinal, rows, signed, high, low in sums
        ),
    )


def _block_entry(width: int, *, has_parts: bool) -> np.dtype[Any]:
    wide = f">u{width}"
    parts = [("part", ">u4")] if has_parts else []
    return np.dtype([("reduce_id", ">u4"), ("crc32", ">u4"), *parts, ("length", wide), ("rows", wide)])


_CANNOT_WRITE: Final = "the extents of the reduce ranges cannot be written to local disk"
_INLINE_BYTES: Final = 256 << 10
"""Sections up to here follow the head: one request writes all, one reads all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExtents:
    """The extents of a shuffle; ``inline`` has the sections if they follow the head."""

    store: Store
    head: ExtentsHead
    inline: bytes

    @classmethod
    def open(cls, store: Store, key: str) -> Self:
        """Reads the head.

        Raises:
            KeyMissingError: there are no extents.
            ValueError: they are damaged.
        """
        data = store.get(key)
        head, size_bytes = decode_head(data)
        return cls(store=store, head=head, inline=data[size_bytes:])

    def of(self, range_id: int) -> RangeExtents:
        """The extents of one range; raises as `open` does."""
        start, stop = self.head.section(range_id)
        if not self.head.sections_key:
            return decode_section(self.inline[start:stop], self.head, range_id)
        [section] = self.store.get_ranges(self.head.sections_key, [(start, stop)])
        return decode_section(section, self.head, range_id)

    @classmethod
    def write(
        cls,
        store: Store,
        key: str,
        extents: Iterable[RangeExtents],
        files: Sequence[ShuffledFile],
        *,
        has_parts: bool = False,
        disk: Path | None = None,
    ) -> None:
        """Writes the extents of all ranges, in their order; never holds more than one range.

        Args:
            key: of the head, which is written last.
            disk: for sections; None: the machine's temporary folder.
        """
        entries: list[tuple[int, ...]] = []
        size_bytes, small = 0, bytearray()
        with ExitStack() as owned:
            file: BinaryIO | None = None
            for each in extents:
                section = encode_section(each, has_parts=has_parts)
                of_section = zlib.crc32(section), size_bytes, len(section), each.most_rows
                entries.append((each.start, each.stop, *of_section, *(each.parts or (0, NUM_PARTS))))
                size_bytes += len(section)
                with on_local_disk(_CANNOT_WRITE):
                    if file is None and size_bytes > _INLINE_BYTES:
                        path = owned.enter_context(task_folder("coalesce", disk)) / "sections"
                        file = owned.enter_context(scratch_file(path.open("wb")))
                        file.write(small)
                    if file is None:
                        small += section
                    else:
                        file.write(section)
            ranges = np.array(entries, _RANGE_OF_PARTS)
            head = ExtentsHead(ranges=ranges, files=tuple(files), has_parts=has_parts)
            if file is None:
                store.put(key, encode_head(head) + small)
                return
            with on_local_disk(_CANNOT_WRITE):
                file.close()
            # Called after their content: a writer that comes late, from other attempts of the map tasks, replaces the
            # head by one that names its own sections, and never sections under a head with other places for them.
            sections_key = f"{key}.{digest_of(encode_head(head))[:16]}.sections"
            store.put(sections_key, path)
            store.put(key, encode_head(replace(head, sections_key=sections_key)))
