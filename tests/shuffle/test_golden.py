"""The shuffle's files as docs/developers/formats.md defines them: written now like then, and read as bytes."""

import json
import struct
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import lz4.frame
import numpy as np
import pyarrow as pa
import pytest

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.documents import dump_document
from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.coalesce import CoalescePlan, ReduceRange
from icefloe.shuffle.committed_output import CorruptMapOutputError, MapOutputLog, MapOutputRecord, read_committed_output
from icefloe.shuffle.extents import CollectedBlocks, write_extents
from icefloe.shuffle.map_output import MapOutputWriter
from shuffle.memory_store import MemoryStore
from shuffle.shuffled_rows import TABLE_SCHEMA, Rows, commit_rows, some_rows
from support.pipelines.transfers import blocks_in_a_file_of_their_own

SCHEMA: Final = BlockRows.schema(TABLE_SCHEMA)
PLAIN, HASH_ROWS, JOINED = "golden", "golden_hash_rows", "golden_joined"
P: Final = 4
H: Final = 2
"""Hash partitions."""
PLAIN_P: Final = 8


def golden(folder: str, name: str) -> bytes:
    return (Path(__file__).parent / folder / name).read_bytes()


def golden_store(folder: str) -> MemoryStore:
    store = MemoryStore()
    store.objects.update((path.name, path.read_bytes()) for path in (Path(__file__).parent / folder).iterdir())
    del store.objects["README.md"]
    return store


def twelve_rows() -> Rows:
    return some_rows(12, num_partitions=P, ordinals=2)


def plain_rows() -> Rows:
    """Twelve rows of two change ordinals in the reduce partitions 0, 1, 2, 4, 5 and 6 of 8."""
    rows = some_rows(12, num_partitions=6, ordinals=2)
    return replace(rows, reduce_ids=rows.reduce_ids + (rows.reduce_ids > 2))


def written_plain() -> MemoryStore:
    store = MemoryStore()
    with blocks_in_a_file_of_their_own():
        record = commit_rows(store, plain_rows(), num_partitions=PLAIN_P, attempt="a")
    with CollectedBlocks(PLAIN_P) as collected:
        collected.add(read_committed_output(store, record, schema=SCHEMA, num_partitions=PLAIN_P))
        plan = CoalescePlan.of(collected.partition_bytes, num_partitions=PLAIN_P, target_size_bytes=850, min_ranges=1)
        store.put("ranges.json", dump_document(plan))
        write_extents(store, "0.extents", collected.extents(plan.ranges), collected.files)
    MapOutputLog(store).void(0, 0, "the reason")
    return store


def written_hash_rows(memory_bytes: int = 1 << 20) -> MemoryStore:
    """Twelve rows whose identities are not among their columns."""
    store, rows, numbers = MemoryStore(), twelve_rows(), np.arange(12).astype(np.uint64)
    hashes = RowHashes(numbers + np.uint64(100), numbers)
    with blocks_in_a_file_of_their_own(), MapOutputWriter(
        store, map_id=0, generation=0, attempt="a", schema=TABLE_SCHEMA, num_partitions=P, memory_bytes=memory_bytes,
        hash_partitions=H,
    ) as writer:  # fmt: skip
        for some in (np.arange(7), np.arange(7, 12)):
            rows.slice(some[0], some[-1] + 1).write(writer, row_hashes=hashes.take(some))
        record = writer.commit(bytes_read=999, bytes_decoded=1, seconds=1.5)
    output = read_committed_output(store, record, schema=SCHEMA, num_partitions=P, hash_partitions=H)
    ranges = (ReduceRange(range_id=0, start=0, stop=2), ReduceRange(range_id=1, start=2, stop=4))
    hash_ranges = tuple(ReduceRange(range_id=2 + each, start=P + each, stop=P + each + 1) for each in range(H))
    plan = CoalescePlan(num_partitions=P, target_size_bytes=300, ranges=ranges, hash_ranges=hash_ranges)
    store.put("ranges.json", dump_document(plan))
    with CollectedBlocks(P + H) as collected:
        collected.add(output)
        write_extents(store, "0.extents", collected.extents(plan.all_ranges), collected.files)
    return store


def written_joined() -> MemoryStore:
    """Twelve rows of a small map output."""
    store = MemoryStore()
    commit_rows(store, twelve_rows(), num_partitions=P, attempt="a")
    return store


@pytest.mark.parametrize(
    ("folder", "write"),
    [(PLAIN, written_plain), (HASH_ROWS, written_hash_rows), (JOINED, written_joined)],
)
def test_the_same_rows_give_the_same_files_and_no_other(folder: str, write: Callable[[], MemoryStore]) -> None:
    written, expected = write().objects, golden_store(folder).objects
    assert written.keys() == expected.keys()
    assert [name for name in expected if written[name] != expected[name]] == []


def blocks_of(folder: str, number: int) -> list[bytes]:
    """The blocks of a data file, by the offsets of its index."""
    offsets = struct.unpack_from(f">{number + 1}q", golden(folder, "0.0.a.index"))
    data = golden(folder, "0.0.a.data")
    return [data[start:stop] for start, stop in pairwise(offsets)]


def rows_in(block: bytes) -> pa.RecordBatch:
    content = lz4.frame.decompress(block)
    assert (block[:6].hex(), struct.unpack_from("<q", block, 6)) == ("04224d184c40", (len(content),))
    return pa.ipc.read_record_batch(pa.ipc.read_message(content), SCHEMA)


def test_the_data_file_reads_as_documented() -> None:
    rows = plain_rows()
    for reduce_id, block in enumerate(blocks_of(PLAIN, PLAIN_P)):
        expected = [position for position in range(12) if rows.reduce_ids[position] == reduce_id]
        if not expected:
            assert block == b""
            continue
        table = rows_in(block).to_pylist()
        assert [row.pop("_weight") for row in table] == rows.weights[expected].tolist()
        assert [row.pop("_change_ordinal") for row in table] == rows.change_ordinals[expected].tolist()
        assert table == rows.batch.take(pa.array(expected)).to_pylist()


def test_the_statistics_read_as_documented() -> None:
    rows = plain_rows()
    data = golden(PLAIN, "0.0.a.index")[8 * (PLAIN_P + 1) :]
    magic, version, partitions, count = struct.unpack_from(">4sIII", data)
    assert (magic, version, partitions) == (b"IFST", 1, PLAIN_P)
    entries = list(struct.iter_unpack(">iiqqQQ", data[16 : 16 + 40 * count]))
    groups = sorted(set(zip(rows.reduce_ids.tolist(), rows.change_ordinals.tolist(), strict=True)))
    assert [entry[:2] for entry in entries] == groups
    for reduce_id, ordinal, row_count, signed_count, high, low in entries:
        members = [i for i in range(12) if (rows.reduce_ids[i], rows.change_ordinals[i]) == (reduce_id, ordinal)]
        assert row_count == len(members)
        assert signed_count == rows.weights[members].sum()
        assert high << 64 | low == sum(rows.row_hashes[i] * int(rows.weights[i]) for i in members) % (1 << 128)
    checksums = struct.unpack_from(f">{PLAIN_P}I", data, 16 + 40 * count)
    assert list(checksums) == [zlib.crc32(block) for block in blocks_of(PLAIN, PLAIN_P)]
    assert struct.unpack(">I", data[-4:]) == (zlib.crc32(data[:-4]),)
    assert len(data) == 16 + 40 * count + 4 * PLAIN_P + 4


def joined_parts() -> tuple[bytes, bytes]:
    """Index and blocks of the one data file."""
    index = json.loads(golden(JOINED, "0.0"))["index"]["size_bytes"]
    return golden(JOINED, "0.0.a.data")[:index], golden(JOINED, "0.0.a.data")[index:]


@pytest.mark.parametrize(
    ("folder", "index", "data"),
    [(PLAIN, golden(PLAIN, "0.0.a.index"), golden(PLAIN, "0.0.a.data")), (JOINED, *joined_parts())],
    ids=[PLAIN, JOINED],
)
def test_the_commit_record_reads_as_documented(folder: str, index: bytes, data: bytes) -> None:
    record = json.loads(golden(folder, "0.0"))
    keys = ("0.0.a.data", "0.0.a.index" if folder == PLAIN else "0.0.a.data")
    assert (record["version"], record["data"]["key"], record["index"]["key"]) == (1, *keys)
    for name, content in (("data", data), ("index", index)):
        assert (record[name]["size_bytes"], record[name]["crc32"]) == (len(content), zlib.crc32(content))
    claimed = record.pop("crc32")
    assert claimed == zlib.crc32(json.dumps(record, sort_keys=True, separators=(",", ":")).encode())


def test_the_extents_read_as_documented() -> None:
    data = golden(PLAIN, "0.extents")
    magic, version, ranges, files, names_bytes, key_bytes = struct.unpack_from(">4sIIIII", data)
    assert (magic, version, files, key_bytes) == (b"IFEX", 1, 1, 0)
    assert struct.unpack_from(">I", data, 24) == (zlib.crc32(data[:24]),)
    planned = json.loads(golden(PLAIN, "ranges.json"))["ranges"]
    directory = list(struct.iter_unpack(">IIIQQQ", data[28 : 28 + 36 * ranges]))
    assert [entry[:2] for entry in directory] == [(each["start"], each["stop"]) for each in planned]
    record = json.loads(golden(PLAIN, "0.0"))
    files_at, names_at = 28 + 36 * ranges, 28 + 36 * ranges + 28
    assert struct.unpack_from(">IIIQQ", data, files_at) == (
        0, 0, names_bytes, record["data"]["size_bytes"], record["largest_block_bytes"]
    )  # fmt: skip
    assert data[names_at : names_at + names_bytes].decode() == record["data"]["key"]
    sections_at = names_at + names_bytes + 4
    assert struct.unpack_from(">I", data, sections_at - 4) == (zlib.crc32(data[28 : sections_at - 4]),)
    blocks, own = [], blocks_of(PLAIN, PLAIN_P)
    for (start, stop, crc32, offset, length, rows), sections in ((each, data[sections_at:]) for each in directory):
        section = sections[offset : offset + length]
        assert zlib.crc32(section) == crc32
        ordinals, pieces, count, width = struct.unpack_from(">IIII", section)
        assert (pieces, width) == (1, 4)
        sums = list(struct.iter_unpack(">iqqQQ", section[16 : 16 + 36 * ordinals]))
        assert sum(each[1] for each in sums) == rows
        output, piece_blocks, piece_offset = struct.unpack_from(">IIQ", section, 16 + 36 * ordinals)
        assert (output, piece_blocks, piece_offset) == (0, count, sum(map(len, own[:start])))
        blocks += (found := list(struct.iter_unpack(">IIII", section[32 + 36 * ordinals :])))
        assert all(start <= reduce_id < stop for reduce_id, *_ in found)
    counts = Counter(plain_rows().reduce_ids.tolist())
    assert blocks == [
        (number, zlib.crc32(block), len(block), counts[number]) for number, block in enumerate(own) if block
    ]


@pytest.mark.parametrize("is_spilled", [False, True])
def test_a_hash_partition_has_the_hashes_of_its_rows(is_spilled: bool) -> None:
    objects = (written_hash_rows(memory_bytes=1) if is_spilled else golden_store(HASH_ROWS)).objects
    fields = [("_row", pa.binary(16)), ("_identity", pa.binary(16)), ("_weight", pa.int64())]
    schema = pa.schema([pa.field(*each, nullable=False) for each in [*fields, ("_change_ordinal", pa.int32())]])
    offsets = struct.unpack_from(f">{P + H + 1}q", objects["0.0.a.index"])
    rows = twelve_rows()
    for partition in range(H):
        first, stop = offsets[P + partition :][:2]
        reader, found = pa.BufferReader(lz4.frame.decompress(objects["0.0.a.data"][first:stop])), []
        while reader.tell() < reader.size():
            batch = pa.ipc.read_record_batch(pa.ipc.read_message(reader), schema)
            found += [tuple(row.values()) for row in batch.to_pylist()]
        assert found == [
            (struct.pack(">QQ", row + 100, row), struct.pack(">QQ", 0, rows.reduce_ids[row]), weight, ordinal)
            for row, (weight, ordinal) in enumerate(
                zip(rows.weights.tolist(), rows.change_ordinals.tolist(), strict=True)
            )
            if row % H == partition
        ]


@pytest.mark.parametrize("hash_partitions", [0, 3])
def test_a_map_output_with_other_hash_partitions_is_made_again(hash_partitions: int) -> None:
    record = MapOutputRecord.from_json(golden(HASH_ROWS, "0.0"), map_id=0, generation=0)
    with pytest.raises(CorruptMapOutputError, match="another number of partitions or hash partitions"):
        read_committed_output(
            golden_store(HASH_ROWS), record, schema=SCHEMA, num_partitions=P, hash_partitions=hash_partitions
        )
