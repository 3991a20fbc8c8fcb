"""The shuffle's files as docs/developers/formats.md defines them: written now like then, and read as bytes."""

import json
import struct
import zlib
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import lz4.frame
import pyarrow as pa
import pytest

from icefloe.documents import dump_document
from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.coalesce import CoalescePlan, coalesce
from icefloe.shuffle.committed_output import read_committed_output
from icefloe.shuffle.extents import CollectedBlocks
from icefloe.shuffle.extents_file import store_extents
from icefloe.shuffle.map_output_log import MapOutputLog
from shuffle.memory_store import MemoryStore
from shuffle.shuffled_rows import TABLE_SCHEMA, commit_rows, some_rows
from support.pipelines.transfers import blocks_in_a_file_of_their_own

GOLDEN = Path(__file__).parent / "golden"
NAMES = [
    "0.0",
    "0.0.a.data",
    "0.0.a.index",
    "0.0.void",
    "0.extents",
    "ranges.json",
    "voids.json",
]
P = 8


def golden(name):
    return (GOLDEN / name).read_bytes()


def golden_rows():
    """Twelve rows of two change ordinals in the reduce partitions 0, 1, 2, 4, 5 and 6 of 8."""
    rows = some_rows(12, num_partitions=6, ordinals=2)
    return replace(rows, reduce_ids=rows.reduce_ids + (rows.reduce_ids > 2))


@pytest.fixture(scope="module")
def written():
    store = MemoryStore()
    with blocks_in_a_file_of_their_own():
        record = commit_rows(store, golden_rows(), num_partitions=P, attempt="a")
    output = read_committed_output(store, record, schema=block_schema(TABLE_SCHEMA), num_partitions=P)
    with CollectedBlocks(P) as collected:
        collected.add(output)
        ranges = coalesce(collected.partition_bytes, target_size_bytes=850, min_ranges=1, min_range_bytes=1)
        store.put("ranges.json", dump_document(CoalescePlan(num_partitions=P, target_size_bytes=850, ranges=ranges)))
        store_extents(store, "0.extents", collected.extents(ranges), collected.files)
    MapOutputLog(store).void(0, 0, "the reason")
    return store.objects


def test_the_golden_files_are_all_that_is_written(written):
    assert sorted(written) == NAMES == sorted(path.name for path in GOLDEN.iterdir() if path.name != "README.md")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_rows_give_the_same_bytes(written, name):
    assert written[name] == golden(name)


def offsets():
    return struct.unpack_from(f">{P + 1}q", golden("0.0.a.index"))


def test_the_data_file_reads_as_documented():
    rows = golden_rows()
    data = golden("0.0.a.data")
    for reduce_id in range(P):
        block = data[offsets()[reduce_id] : offsets()[reduce_id + 1]]
        expected = [position for position in range(12) if rows.reduce_ids[position] == reduce_id]
        if not expected:
            assert block == b""
            continue
        assert block[:6].hex() == "04224d184c40"
        content = lz4.frame.decompress(block)
        assert struct.unpack_from("<q", block, 6) == (len(content),)
        batch = pa.ipc.read_record_batch(pa.ipc.read_message(content), block_schema(TABLE_SCHEMA))
        table = batch.to_pylist()
        assert [row.pop("_weight") for row in table] == rows.weights[expected].tolist()
        assert [row.pop("_change_ordinal") for row in table] == rows.change_ordinals[expected].tolist()
        assert table == rows.batch.take(pa.array(expected)).to_pylist()


def test_the_statistics_read_as_documented():
    rows = golden_rows()
    data = golden("0.0.a.index")[8 * (P + 1) :]
    magic, version, partitions, count = struct.unpack_from(">4sIII", data)
    assert (magic, version, partitions) == (b"IFST", 1, P)
    entries = list(struct.iter_unpack(">iiqqQQ", data[16 : 16 + 40 * count]))
    groups = sorted(set(zip(rows.reduce_ids.tolist(), rows.change_ordinals.tolist(), strict=True)))
    assert [entry[:2] for entry in entries] == groups
    for reduce_id, ordinal, row_count, signed_count, high, low in entries:
        members = [i for i in range(12) if (rows.reduce_ids[i], rows.change_ordinals[i]) == (reduce_id, ordinal)]
        assert row_count == len(members)
        assert signed_count == rows.weights[members].sum()
        assert high << 64 | low == sum(rows.row_hashes[i] * int(rows.weights[i]) for i in members) % (1 << 128)
    checksums = struct.unpack_from(f">{P}I", data, 16 + 40 * count)
    blocks = [golden("0.0.a.data")[start:stop] for start, stop in zip(offsets(), offsets()[1:], strict=False)]
    assert list(checksums) == [zlib.crc32(block) for block in blocks]
    assert struct.unpack(">I", data[-4:]) == (zlib.crc32(data[:-4]),)
    assert len(data) == 16 + 40 * count + 4 * P + 4


def test_the_commit_record_reads_as_documented():
    record = json.loads(golden("0.0"))
    assert record["version"] == 1
    for name in ("data", "index"):
        content = golden(record[name]["key"])
        assert (record[name]["size_bytes"], record[name]["crc32"]) == (len(content), zlib.crc32(content))
    claimed = record.pop("crc32")
    assert claimed == zlib.crc32(json.dumps(record, sort_keys=True, separators=(",", ":")).encode())


def test_the_extents_read_as_documented():
    data = golden("0.extents")
    magic, version, flags, ranges, files, names_bytes, key_bytes = struct.unpack_from(">4sIIIIII", data)
    assert (magic, version, flags, files, key_bytes) == (b"IFEX", 1, 0, 1, 0)
    assert struct.unpack_from(">I", data, 28) == (zlib.crc32(data[:28]),)
    planned = json.loads(golden("ranges.json"))["ranges"]
    directory = list(struct.iter_unpack(">IIIQQQ", data[32 : 32 + 36 * ranges]))
    assert [entry[:2] for entry in directory] == [(each["start"], each["stop"]) for each in planned]
    record = json.loads(golden("0.0"))
    files_at, names_at = 32 + 36 * ranges, 32 + 36 * ranges + 28
    assert struct.unpack_from(">IIIQQ", data, files_at) == (
        0, 0, names_bytes, record["data"]["size_bytes"], record["largest_block_bytes"]
    )  # fmt: skip
    assert data[names_at : names_at + names_bytes].decode() == record["data"]["key"]
    sections_at = names_at + names_bytes + 4
    assert struct.unpack_from(">I", data, sections_at - 4) == (zlib.crc32(data[32 : sections_at - 4]),)
    blocks = []
    for (start, stop, crc32, offset, length, rows), sections in ((each, data[sections_at:]) for each in directory):
        section = sections[offset : offset + length]
        assert zlib.crc32(section) == crc32
        ordinals, pieces, count, width = struct.unpack_from(">IIII", section)
        assert (pieces, width) == (1, 4)
        sums = list(struct.iter_unpack(">iqqQQ", section[16 : 16 + 36 * ordinals]))
        assert sum(each[1] for each in sums) == rows
        output, piece_blocks, piece_offset = struct.unpack_from(">IIQ", section, 16 + 36 * ordinals)
        assert (output, piece_blocks, piece_offset) == (0, count, offsets()[start])
        blocks += (found := list(struct.iter_unpack(">IIII", section[32 + 36 * ordinals :])))
        assert all(start <= reduce_id < stop for reduce_id, *_ in found)
    data_file, counts = golden("0.0.a.data"), Counter(golden_rows().reduce_ids.tolist())
    expected = [
        (number, zlib.crc32(data_file[first:last]), last - first, counts[number])
        for number, (first, last) in enumerate(pairwise(offsets()))
        if first < last
    ]
    assert blocks == expected
