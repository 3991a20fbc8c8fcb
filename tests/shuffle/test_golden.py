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
from icefloe.documents import dump_document, load_document
from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.coalesce import BlockNumbers, CoalescePlan, ReduceRange, coalesce
from icefloe.shuffle.committed_output import CorruptMapOutputError, MapOutputLog, MapOutputRecord, read_committed_output
from icefloe.shuffle.extents import CollectedBlocks
from icefloe.shuffle.extents_file import StoredExtents
from icefloe.shuffle.map_output import MapOutputWriter, MapTaskCounts
from shuffle.memory_store import MemoryStore
from shuffle.planned_extents import planned_extents
from shuffle.shuffled_rows import TABLE_SCHEMA, Rows, commit_rows, some_rows
from support.pipelines.transfers import blocks_in_a_file_of_their_own

SCHEMA: Final = block_schema(TABLE_SCHEMA)
PLAIN, DIVIDED, HASH_ROWS, JOINED = "golden", "golden_divided", "golden_hash_rows", "golden_joined"
P: Final = 4
HOT: Final = 1
"""The divided partition."""
H: Final = 2
"""Hash partitions."""
DIVIDED_BLOCKS: Final = P + 63
PLAIN_P: Final = 8
DIVIDED_RANGES: Final = (
    ReduceRange(range_id=0, start=0, stop=1),
    ReduceRange(range_id=1, start=HOT, stop=HOT + 1, parts=(0, 24)),
    ReduceRange(range_id=2, start=HOT, stop=HOT + 1, parts=(24, 64)),
    ReduceRange(range_id=3, start=2, stop=4),
)


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


def identities() -> RowHashes:
    """The upper six bits are 0, 5, 10 and on."""
    numbers = np.arange(12).astype(np.uint64)
    return RowHashes((numbers * np.uint64(5)) << np.uint64(58), numbers)


def written_plain() -> MemoryStore:
    store = MemoryStore()
    with blocks_in_a_file_of_their_own():
        record = commit_rows(store, plain_rows(), num_partitions=PLAIN_P, attempt="a")
    with CollectedBlocks(PLAIN_P) as collected:
        collected.add(read_committed_output(store, record, schema=SCHEMA, num_partitions=PLAIN_P))
        ranges = coalesce(collected.partition_bytes, target_size_bytes=850, min_ranges=1, min_range_bytes=1)
        plan = CoalescePlan(num_partitions=PLAIN_P, target_size_bytes=850, ranges=ranges)
        store.put("ranges.json", dump_document(plan))
        StoredExtents.write(store, "0.extents", collected.extents(ranges), collected.files)
    MapOutputLog(store).void(0, 0, "the reason")
    return store


def write_twelve_rows(
    store: MemoryStore,
    numbers: BlockNumbers | None,
    hashes: RowHashes,
    *,
    memory_bytes: int = 1 << 20,
    map_id: int = 0,
    hash_partitions: int = 0,
) -> MapOutputRecord:
    """The map output of a task that finds blocks of these numbers; it would divide no partition of so few rows."""
    rows = twelve_rows()
    with blocks_in_a_file_of_their_own(), MapOutputWriter(
        store, generation=0, attempt="a", schema=TABLE_SCHEMA, num_partitions=P, memory_bytes=memory_bytes,
        map_id=map_id, hash_partitions=hash_partitions,
    ) as writer:  # fmt: skip
        writer._numbers = numbers
        for some in (slice(0, 7), slice(7, 12)) if hash_partitions else (slice(0, 12),):
            writer.write(
                rows.batch.slice(some.start, some.stop - some.start), reduce_ids=rows.reduce_ids[some],
                change_ordinals=rows.change_ordinals[some], weights=rows.weights[some], row_hashes=hashes[some],
                identity_hashes=identities()[some],
            )  # fmt: skip
        return writer.commit(MapTaskCounts(bytes_read=999, bytes_decoded=1, seconds=1.5))


def written_divided() -> MemoryStore:
    """Twelve rows twice: in a map output that is divided, and in another that is not."""
    store = MemoryStore()
    numbers = (BlockNumbers(num_partitions=P, divided=(HOT,)), None)
    records = [
        write_twelve_rows(store, each, twelve_rows().row_hashes, map_id=map_id) for map_id, each in enumerate(numbers)
    ]
    extents = planned_extents(store, records, DIVIDED_RANGES, table_schema=TABLE_SCHEMA, num_partitions=P)
    StoredExtents.write(store, "0.extents", extents, extents[0].files, has_parts=True)
    store.put("ranges.json", dump_document(CoalescePlan.of(DIVIDED_RANGES, num_partitions=P, target_size_bytes=300)))
    return store


def written_hash_rows(memory_bytes: int = 1 << 20) -> MemoryStore:
    """Twelve rows in a map output that divided a partition."""
    store, numbers = MemoryStore(), np.arange(12).astype(np.uint64)
    blocks, hashes = (
        BlockNumbers(num_partitions=P + H, divided=(HOT,)), RowHashes(numbers + np.uint64(100), numbers)
    )  # fmt: skip
    record = write_twelve_rows(store, blocks, hashes, memory_bytes=memory_bytes, hash_partitions=H)
    output = read_committed_output(store, record, schema=SCHEMA, num_partitions=P, hash_partitions=H)
    ranges = (ReduceRange(range_id=0, start=0, stop=2), ReduceRange(range_id=1, start=2, stop=4))
    hash_ranges = tuple(ReduceRange(range_id=each, start=each, stop=each + 1) for each in range(H))
    plan = CoalescePlan.of(ranges, num_partitions=P, target_size_bytes=300, hash_ranges=hash_ranges)
    store.put("ranges.json", dump_document(plan))
    with CollectedBlocks(P + H) as collected:
        collected.add(output)
        StoredExtents.write(store, "0.extents", collected.extents(plan.all_ranges), collected.files)
    return store


def written_joined() -> MemoryStore:
    """Twelve rows of a small map output."""
    store = MemoryStore()
    commit_rows(store, twelve_rows(), num_partitions=P, attempt="a")
    return store


@pytest.mark.parametrize(
    ("folder", "write"),
    [(PLAIN, written_plain), (DIVIDED, written_divided), (HASH_ROWS, written_hash_rows), (JOINED, written_joined)],
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
    magic, version, flags, ranges, files, names_bytes, key_bytes = struct.unpack_from(">4sIIIIII", data)
    assert (magic, version, flags, files, key_bytes) == (b"IFEX", 1, 0, 1, 0)
    assert struct.unpack_from(">I", data, 28) == (zlib.crc32(data[:28]),)
    planned = json.loads(golden(PLAIN, "ranges.json"))["ranges"]
    directory = list(struct.iter_unpack(">IIIQQQ", data[32 : 32 + 36 * ranges]))
    assert [entry[:2] for entry in directory] == [(each["start"], each["stop"]) for each in planned]
    record = json.loads(golden(PLAIN, "0.0"))
    files_at, names_at = 32 + 36 * ranges, 32 + 36 * ranges + 28
    assert struct.unpack_from(">IIIQQ", data, files_at) == (
        0, 0, names_bytes, record["data"]["size_bytes"], record["largest_block_bytes"]
    )  # fmt: skip
    assert data[names_at : names_at + names_bytes].decode() == record["data"]["key"]
    sections_at = names_at + names_bytes + 4
    assert struct.unpack_from(">I", data, sections_at - 4) == (zlib.crc32(data[32 : sections_at - 4]),)
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


def place_of(row: int) -> int:
    """The block of a row: partition 1 has the blocks 1 to 64, partition 2 the block 65."""
    return {0: 0, 1: 1 + row * 5 % 64, 2: 65, 3: 66}[int(twelve_rows().reduce_ids[row])]


def test_a_divided_partition_has_a_block_for_each_part() -> None:
    record = json.loads(golden(DIVIDED, "0.0"))
    assert (record["version"], record["num_partitions"], record["divided"]) == (1, P, [HOT])
    assert MapOutputRecord.from_json(golden(DIVIDED, "0.0"), map_id=0, generation=0).divided == (HOT,)
    for number, block in enumerate(blocks_of(DIVIDED, DIVIDED_BLOCKS)):
        expected = [row for row in range(12) if place_of(row) == number]
        assert rows_in(block)["id"].to_pylist() == expected if expected else block == b""
    data = golden(DIVIDED, "0.0.a.index")[8 * (DIVIDED_BLOCKS + 1) :]
    magic, version, blocks, count = struct.unpack_from(">4sIII", data)
    assert (magic, version, blocks) == (b"IFST", 1, DIVIDED_BLOCKS)
    entries = list(struct.iter_unpack(">iiqqQQ", data[16 : 16 + 40 * count]))
    assert [entry[:2] for entry in entries] == sorted({(place_of(row), row % 2) for row in range(12)})


def test_extents_name_parts() -> None:
    data = golden(DIVIDED, "0.extents")
    magic, version, flags, ranges, files, names_bytes, _ = struct.unpack_from(">4sIIIIII", data)
    assert (magic, version, flags, ranges, files) == (b"IFEX", 1, 1, 4, 2)
    assert struct.unpack_from(">I", data, 28) == (zlib.crc32(data[:28]),)
    directory = list(struct.iter_unpack(">IIIQQQII", data[32 : 32 + 44 * ranges]))
    assert [(entry[0], entry[1], entry[6:]) for entry in directory] == [
        (each.start, each.stop, each.parts or (0, 64)) for each in DIVIDED_RANGES
    ]
    sections = data[32 + 44 * ranges + 28 * files + names_bytes + 4 :]
    _, _, _, offset, length, rows, first_part, stop_part = directory[1]
    section = sections[offset : offset + length]
    ordinals, pieces, count, width = struct.unpack_from(">IIII", section)
    assert (pieces, width) == (2, 4)
    blocks = list(struct.iter_unpack(">IIIII", section[16 + 36 * ordinals + 16 * pieces :]))
    assert len(blocks) == count
    parts = [place_of(row) - 1 for row in range(12) if 1 <= place_of(row) <= 64]
    assert [part for _, _, part, _, _ in blocks] == [*sorted(p for p in parts if first_part <= p < stop_part), 64]
    assert sum(block[4] for block in blocks) == rows
    own = sum(each[1] for each in struct.iter_unpack(">iqqQQ", section[16 : 16 + 36 * ordinals]))
    assert own == rows - blocks[-1][4]
    opened = StoredExtents.open(golden_store(DIVIDED), "0.extents")
    assert [opened.of(each.range_id).parts for each in DIVIDED_RANGES] == [each.parts for each in DIVIDED_RANGES]


@pytest.mark.parametrize("is_spilled", [False, True])
def test_a_hash_partition_has_the_hashes_of_its_rows(is_spilled: bool) -> None:
    objects = (written_hash_rows(memory_bytes=1) if is_spilled else golden_store(HASH_ROWS)).objects
    fields = [("_row", pa.binary(16)), ("_identity", pa.binary(16)), ("_weight", pa.int64())]
    schema = pa.schema([pa.field(*each, nullable=False) for each in [*fields, ("_change_ordinal", pa.int32())]])
    offsets = struct.unpack_from(f">{DIVIDED_BLOCKS + H + 1}q", objects["0.0.a.index"])
    rows = twelve_rows()
    for partition in range(H):
        first, stop = offsets[DIVIDED_BLOCKS + partition :][:2]
        reader, found = pa.BufferReader(lz4.frame.decompress(objects["0.0.a.data"][first:stop])), []
        while reader.tell() < reader.size():
            batch = pa.ipc.read_record_batch(pa.ipc.read_message(reader), schema)
            found += [tuple(row.values()) for row in batch.to_pylist()]
        assert found == [
            (struct.pack(">QQ", row + 100, row), struct.pack(">QQ", row * 5 % 64 << 58, row), weight, ordinal)
            for row, (weight, ordinal) in enumerate(
                zip(rows.weights.tolist(), rows.change_ordinals.tolist(), strict=True)
            )
            if row % H == partition
        ]


def test_statistics_count_rows_and_hashes_and_ranges_go_on() -> None:
    number = DIVIDED_BLOCKS + H
    data = golden(HASH_ROWS, "0.0.a.index")[8 * (number + 1) :]
    _, _, blocks, count = struct.unpack_from(">4sIII", data)
    entries = list(struct.iter_unpack(">iiqqQQ", data[16 : 16 + 40 * count]))
    sums = [sum(each[2] for each in entries if (each[0] >= DIVIDED_BLOCKS) is is_hash) for is_hash in (False, True)]
    assert (blocks, sums) == (number, [12, 12])
    record = json.loads(golden(HASH_ROWS, "0.0"))
    assert (record["version"], record["rows"], record["hash_partitions"]) == (1, 12, H)
    plan = load_document(CoalescePlan, golden(HASH_ROWS, "ranges.json"), what="ranges.json")
    assert (plan.version, [each.range_id for each in plan.all_ranges]) == (1, [0, 1, 2, 3])
    assert [(each.start, each.stop) for each in plan.hash_ranges] == [(4, 5), (5, 6)]
    assert struct.unpack_from(">4sIII", golden(HASH_ROWS, "0.extents"))[3] == 4


@pytest.mark.parametrize("hash_partitions", [0, 3])
def test_a_map_output_with_other_hash_partitions_is_made_again(hash_partitions: int) -> None:
    record = MapOutputRecord.from_json(golden(HASH_ROWS, "0.0"), map_id=0, generation=0)
    with pytest.raises(CorruptMapOutputError, match="another number of hash partitions"):
        read_committed_output(
            golden_store(HASH_ROWS), record, schema=SCHEMA, num_partitions=P, hash_partitions=hash_partitions
        )
