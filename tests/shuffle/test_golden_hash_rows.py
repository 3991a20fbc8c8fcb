"""The files of a map output with hash partitions, as docs/developers/formats.md defines them."""

import json
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Final

import lz4.frame
import numpy as np
import pyarrow as pa
import pytest

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.documents import dump_document, load_document
from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.coalesce import CoalescePlan, ReduceRange
from icefloe.shuffle.committed_output import read_committed_output
from icefloe.shuffle.extents import CollectedBlocks
from icefloe.shuffle.extents_file import store_extents
from icefloe.shuffle.index_file import decode_statistics, encode_statistics
from icefloe.shuffle.map_output import MapOutputWriter, MapTaskCounts
from icefloe.shuffle.map_output_log import CorruptMapOutputError, MapOutputRecord
from icefloe.shuffle.partitions import BlockNumbers
from shuffle.memory_store import MemoryStore
from shuffle.shuffled_rows import TABLE_SCHEMA, some_rows
from support.pipelines.transfers import blocks_in_a_file_of_their_own

GOLDEN: Final = Path(__file__).parent / "golden_hash_rows"
NAMES: Final = ["0.0", "0.0.a.data", "0.0.a.index", "0.extents", "ranges.json"]
P: Final = 4
H: Final = 2
HOT: Final = 1
BLOCKS: Final = P + 63 + H


def identities() -> RowHashes:
    """The upper six bits are 0, 5, 10 and on."""
    numbers = np.arange(12).astype(np.uint64)
    return RowHashes((numbers * np.uint64(5)) << np.uint64(58), numbers)


def hashes() -> RowHashes:
    numbers = np.arange(12).astype(np.uint64)
    return RowHashes(numbers + np.uint64(100), numbers)


def written_by(memory_bytes: int) -> dict[str, bytes]:
    """Twelve rows in a map output that divided a partition."""
    store, rows = MemoryStore(), some_rows(12, num_partitions=P, ordinals=2)
    with blocks_in_a_file_of_their_own(), MapOutputWriter(
        store, map_id=0, generation=0, attempt="a", schema=TABLE_SCHEMA, num_partitions=P, hash_partitions=H,
        memory_bytes=memory_bytes,
    ) as writer:  # fmt: skip
        # The partition is far too small for a map task that decides by itself.
        writer._numbers = BlockNumbers(num_partitions=P + H, divided=(HOT,))
        for some in (slice(0, 7), slice(7, 12)):
            writer.write(
                rows.batch.slice(some.start, some.stop - some.start), reduce_ids=rows.reduce_ids[some],
                change_ordinals=rows.change_ordinals[some], weights=rows.weights[some], row_hashes=hashes()[some],
                identity_hashes=identities()[some],
            )  # fmt: skip
        record = writer.commit(MapTaskCounts(bytes_read=999, bytes_decoded=1, seconds=1.5))
    schema = block_schema(TABLE_SCHEMA)
    output = read_committed_output(store, record, schema=schema, num_partitions=P, hash_partitions=H)
    ranges = (ReduceRange(range_id=0, start=0, stop=2), ReduceRange(range_id=1, start=2, stop=4))
    hash_ranges = tuple(ReduceRange(range_id=each, start=each, stop=each + 1) for each in range(H))
    plan = CoalescePlan.of(ranges, num_partitions=P, target_size_bytes=300, hash_ranges=hash_ranges)
    store.put("ranges.json", dump_document(plan))
    with CollectedBlocks(P + H) as collected:
        collected.add(output)
        store_extents(store, "0.extents", collected.extents(plan.all_ranges), collected.files)
    return store.objects


@pytest.fixture(scope="module")
def written() -> dict[str, bytes]:
    return written_by(1 << 20)


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def offsets(index: bytes) -> tuple[int, ...]:
    return struct.unpack_from(f">{BLOCKS + 1}q", index)


def test_the_golden_files_are_all_that_is_written(written: dict[str, bytes]) -> None:
    assert sorted(written) == NAMES == sorted(path.name for path in GOLDEN.iterdir() if path.name != "README.md")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_rows_give_the_same_bytes(written: dict[str, bytes], name: str) -> None:
    assert written[name] == golden(name)


def hash_rows_of(objects: dict[str, bytes], partition: int) -> list[tuple[bytes, bytes, int, int]]:
    """The rows of a hash partition, read by nothing of ours."""
    fields = [("_row", pa.binary(16)), ("_identity", pa.binary(16)), ("_weight", pa.int64())]
    schema = pa.schema([pa.field(*each, nullable=False) for each in [*fields, ("_change_ordinal", pa.int32())]])
    first, stop = offsets(objects["0.0.a.index"])[P + 63 + partition :][:2]
    reader = pa.BufferReader(lz4.frame.decompress(objects["0.0.a.data"][first:stop]))
    found = []
    while reader.tell() < reader.size():
        batch = pa.ipc.read_record_batch(pa.ipc.read_message(reader), schema)
        found += [tuple(row.values()) for row in batch.to_pylist()]
    return found


def expected(partition: int) -> list[tuple[bytes, bytes, int, int]]:
    rows = some_rows(12, num_partitions=P, ordinals=2)
    return [
        (struct.pack(">QQ", row + 100, row), struct.pack(">QQ", row * 5 % 64 << 58, row), weight, ordinal)
        for row, weight, ordinal in zip(range(12), rows.weights.tolist(), rows.change_ordinals.tolist(), strict=True)
        if row % H == partition
    ]


@pytest.mark.parametrize("partition", range(H))
def test_a_hash_partition_has_the_hashes_of_its_rows(partition: int) -> None:
    assert hash_rows_of({name: golden(name) for name in NAMES}, partition) == expected(partition)


@pytest.mark.parametrize("partition", range(H))
def test_hash_rows_that_were_spilled_are_the_same(partition: int) -> None:
    assert hash_rows_of(written_by(1), partition) == expected(partition)


def test_statistics_count_each_row_twice() -> None:
    data = golden("0.0.a.index")[8 * (BLOCKS + 1) :]
    _, _, blocks, count = struct.unpack_from(">4sIII", data)
    entries = list(struct.iter_unpack(">iiqqQQ", data[16 : 16 + 40 * count]))
    of_rows, of_hashes = ([each for each in entries if (each[0] >= P + 63) is is_hash] for is_hash in (False, True))
    assert (blocks, sum(each[2] for each in of_rows), sum(each[2] for each in of_hashes)) == (BLOCKS, 12, 12)
    record = json.loads(golden("0.0"))
    assert (record["version"], record["rows"], record["hash_partitions"]) == (1, 12, H)
    assert MapOutputRecord.from_json(golden("0.0"), map_id=0, generation=0).hash_partitions == H


def test_ranges_of_hash_partitions_go_on_from_the_others() -> None:
    plan = load_document(CoalescePlan, golden("ranges.json"), what="ranges.json")
    assert (plan.version, [each.range_id for each in plan.all_ranges]) == (1, [0, 1, 2, 3])
    assert [(each.start, each.stop) for each in plan.hash_ranges] == [(4, 5), (5, 6)]
    ranges = struct.unpack_from(">4sIII", golden("0.extents"))[3]
    assert ranges == 4


@pytest.mark.parametrize("hash_partitions", [0, 3])
def test_a_map_output_with_other_hash_partitions_is_made_again(hash_partitions: int) -> None:
    store = MemoryStore()
    for name in NAMES:
        store.put(name, golden(name))
    record = MapOutputRecord.from_json(golden("0.0"), map_id=0, generation=0)
    with pytest.raises(CorruptMapOutputError, match="another number of hash partitions"):
        read_committed_output(
            store, record, schema=block_schema(TABLE_SCHEMA), num_partitions=P, hash_partitions=hash_partitions
        )


def test_a_map_output_that_lacks_hash_rows_is_made_again() -> None:
    store = MemoryStore()
    for name in NAMES:
        store.put(name, golden(name))
    record = MapOutputRecord.from_json(golden("0.0"), map_id=0, generation=0)
    index = golden("0.0.a.index")
    offsets_bytes = 8 * (BLOCKS + 1)
    statistics, checksums = decode_statistics(index[offsets_bytes:], num_partitions=BLOCKS)
    statistics.rows[-1] -= 1
    changed = index[:offsets_bytes] + encode_statistics(statistics, checksums)
    assert record.index is not None
    store.put(record.index.key, changed)
    record = replace(record, index=replace(record.index, crc32=zlib.crc32(changed)))
    with pytest.raises(CorruptMapOutputError, match="hash rows and commit record do not add up"):
        read_committed_output(store, record, schema=block_schema(TABLE_SCHEMA), num_partitions=P, hash_partitions=H)
