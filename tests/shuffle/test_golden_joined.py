"""The files of a small map output, as docs/developers/formats.md defines them."""

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import lz4.frame
import pyarrow as pa
import pytest

from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.committed_output import read_committed_output
from icefloe.shuffle.extents import CollectedBlocks
from icefloe.shuffle.extents_file import store_extents
from shuffle.memory_store import MemoryStore
from shuffle.shuffled_rows import TABLE_SCHEMA, commit_rows, some_rows

GOLDEN: Final = Path(__file__).parent / "golden_joined"
NAMES: Final = ["0.0", "0.0.a.data", "0.extents"]
P: Final = 4
RANGES: Final = [(0, 2, 0, 64), (2, 3, 0, 32), (2, 3, 32, 64), (3, 4, 0, 64)]


@pytest.fixture(scope="module")
def written() -> dict[str, bytes]:
    """Twelve rows; two ranges read partition 2, so that they fetch its block."""
    store = MemoryStore()
    record = commit_rows(store, some_rows(12, num_partitions=P, ordinals=2), num_partitions=P, attempt="a")
    schema = block_schema(TABLE_SCHEMA)
    output = read_committed_output(store, record, schema=schema, num_partitions=P, with_blocks=True)
    ranges = [
        ReduceRange(range_id=number, start=start, stop=stop, parts=None if (first, last) == (0, 64) else (first, last))
        for number, (start, stop, first, last) in enumerate(RANGES)
    ]
    with CollectedBlocks(P) as collected:
        collected.add(output)
        extents = collected.extents(ranges)
        store_extents(store, "0.extents", extents, collected.files, has_parts=True, has_embedded=True)
    return store.objects


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def test_the_golden_files_are_all_that_is_written(written: dict[str, bytes]) -> None:
    assert sorted(written) == NAMES == sorted(path.name for path in GOLDEN.iterdir() if path.name != "README.md")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_rows_give_the_same_bytes(written: dict[str, bytes], name: str) -> None:
    assert written[name] == golden(name)


def parts_of_the_data_file() -> tuple[bytes, bytes]:
    """Index and blocks."""
    record = json.loads(golden("0.0"))
    index = record["index"]["size_bytes"]
    return golden("0.0.a.data")[:index], golden("0.0.a.data")[index:]


def block_of(reduce_id: int) -> bytes:
    index, blocks = parts_of_the_data_file()
    start, stop = struct.unpack_from(">2q", index, 8 * reduce_id)
    return blocks[start:stop]


def test_the_commit_record_reads_as_documented() -> None:
    record = json.loads(golden("0.0"))
    assert (record["version"], record["data"]["key"], record["index"]["key"]) == (1, "0.0.a.data", "0.0.a.data")
    for name, content in zip(("index", "data"), parts_of_the_data_file(), strict=True):
        assert (record[name]["size_bytes"], record[name]["crc32"]) == (len(content), zlib.crc32(content))


def test_the_blocks_have_the_rows_of_their_partitions() -> None:
    for reduce_id in range(P):
        content = lz4.frame.decompress(block_of(reduce_id))
        rows = pa.ipc.read_record_batch(pa.ipc.read_message(content), block_schema(TABLE_SCHEMA))
        assert rows["id"].to_pylist() == [row for row in range(12) if row * 7 % P == reduce_id]


def sections() -> Iterator[tuple[tuple[int, ...], bytes]]:
    """Start, stop, first and last part of each range, and its section."""
    data = golden("0.extents")
    magic, version, flags, ranges, files, names_bytes, _ = struct.unpack_from(">4sIIIIII", data)
    assert (magic, version, flags, ranges, files) == (b"IFEX", 1, 3, len(RANGES), 1)
    files_at = 32 + 44 * ranges
    map_id, generation, _, size_bytes, _ = struct.unpack_from(">IIIQQ", data, files_at)
    assert (map_id, generation, size_bytes) == (0, 0, len(golden("0.0.a.data")))
    sections_at = files_at + 28 * files + names_bytes + 4
    for entry in struct.iter_unpack(">IIIQQQII", data[32:files_at]):
        start, stop, crc32, offset, length, _, first_part, stop_part = entry
        section = data[sections_at + offset : sections_at + offset + length]
        assert zlib.crc32(section) == crc32
        yield (start, stop, first_part, stop_part), section


def read_section(section: bytes) -> tuple[Any, list[Any], bytes]:
    """The one piece, its blocks, and the bytes after them."""
    ordinals, pieces, count, width = struct.unpack_from(">IIII", section)
    assert (pieces, width) == (1, 4)
    piece_at = 16 + 36 * ordinals
    blocks_at = piece_at + 20
    piece = struct.unpack_from(">IIQI", section, piece_at)
    blocks = list(struct.iter_unpack(">IIIII", section[blocks_at : blocks_at + 20 * count]))
    return piece, blocks, section[blocks_at + 20 * count :]


def test_the_extents_read_as_documented() -> None:
    index, _ = parts_of_the_data_file()
    found = list(sections())
    assert [place for place, _ in found] == RANGES
    for (start, stop, _, stop_part), section in found:
        (output, count, offset, is_embedded), blocks, content = read_section(section)
        own = [block_of(reduce_id) for reduce_id in range(start, stop)]
        [first] = struct.unpack_from(">q", index, 8 * start)
        assert (output, count, offset) == (0, stop - start, len(index) + first)
        assert [(number, crc32, part, length) for number, crc32, part, length, _ in blocks] == [
            (number, zlib.crc32(block), 64, len(block)) for number, block in zip(range(start, stop), own, strict=True)
        ]
        has_all_parts = stop_part == 64 and (start, stop) != (2, 3)
        assert (is_embedded, content) == ((1, b"".join(own)) if has_all_parts else (0, b""))
