"""Files of a divided partition as docs/developers/formats.md has them: written now like then, and read as bytes."""

import json
import struct
import zlib
from pathlib import Path
from typing import Final

import lz4.frame
import numpy as np
import pyarrow as pa
import pytest

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.documents import dump_document
from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.coalesce import CoalescePlan, ReduceRange
from icefloe.shuffle.extents_file import StoredExtents, store_extents
from icefloe.shuffle.map_output import MapOutputWriter, MapTaskCounts
from icefloe.shuffle.map_output_log import MapOutputRecord
from icefloe.shuffle.partitions import BlockNumbers
from shuffle.memory_store import MemoryStore
from shuffle.planned_extents import planned_extents
from shuffle.shuffled_rows import TABLE_SCHEMA, some_rows
from support.pipelines.transfers import blocks_in_a_file_of_their_own

GOLDEN: Final = Path(__file__).parent / "golden_divided"
NAMES: Final = ["0.0", "0.0.a.data", "0.0.a.index", "0.extents", "1.0", "1.0.a.data", "1.0.a.index", "ranges.json"]
P: Final = 4
HOT: Final = 1
BLOCKS: Final = P + 63
RANGES: Final = (
    ReduceRange(range_id=0, start=0, stop=1),
    ReduceRange(range_id=1, start=HOT, stop=HOT + 1, parts=(0, 24)),
    ReduceRange(range_id=2, start=HOT, stop=HOT + 1, parts=(24, 64)),
    ReduceRange(range_id=3, start=2, stop=4),
)


def identities() -> RowHashes:
    """The upper six bits are 0, 5, 10 and on."""
    high = (np.arange(12).astype(np.uint64) * np.uint64(5)) << np.uint64(58)
    return RowHashes(high, np.zeros(12, np.uint64))


@pytest.fixture(scope="module")
def written() -> dict[str, bytes]:
    """Twelve rows twice: in a map output that is divided, and in another that is not."""
    store, rows, records = MemoryStore(), some_rows(12, num_partitions=P, ordinals=2), []
    for map_id, numbers in enumerate((BlockNumbers(num_partitions=P, divided=(HOT,)), None)):
        with blocks_in_a_file_of_their_own(), MapOutputWriter(
            store, map_id=map_id, generation=0, attempt="a", schema=TABLE_SCHEMA, num_partitions=P,
            memory_bytes=1 << 20,
        ) as writer:  # fmt: skip
            # The partition is far too small for a map task that decides by itself.
            writer._numbers = numbers
            writer.write(
                rows.batch, reduce_ids=rows.reduce_ids, change_ordinals=rows.change_ordinals, weights=rows.weights,
                row_hashes=rows.row_hashes, identity_hashes=identities(),
            )  # fmt: skip
            records.append(writer.commit(MapTaskCounts(bytes_read=999, bytes_decoded=1, seconds=1.5)))
    extents = planned_extents(store, records, RANGES, table_schema=TABLE_SCHEMA, num_partitions=P)
    store_extents(store, "0.extents", extents, extents[0].files, has_parts=True)
    store.put("ranges.json", dump_document(CoalescePlan.of(RANGES, num_partitions=P, target_size_bytes=300)))
    return store.objects


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def offsets() -> tuple[int, ...]:
    return struct.unpack_from(f">{BLOCKS + 1}q", golden("0.0.a.index"))


def test_the_golden_files_are_all_that_is_written(written: dict[str, bytes]) -> None:
    assert sorted(written) == NAMES == sorted(path.name for path in GOLDEN.iterdir() if path.name != "README.md")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_rows_give_the_same_bytes(written: dict[str, bytes], name: str) -> None:
    assert written[name] == golden(name)


def place_of(row: int) -> int:
    """The block of a row: partition 1 has the blocks 1 to 64, partition 2 the block 65."""
    partition = int(some_rows(12, num_partitions=P, ordinals=2).reduce_ids[row])
    return {0: 0, 1: 1 + row * 5 % 64, 2: 65, 3: 66}[partition]


def test_a_divided_partition_has_a_block_for_each_part() -> None:
    record = json.loads(golden("0.0"))
    assert (record["version"], record["num_partitions"], record["divided"]) == (1, P, [HOT])
    assert MapOutputRecord.from_json(golden("0.0"), map_id=0, generation=0).divided == (HOT,)
    data = golden("0.0.a.data")
    for number in range(BLOCKS):
        block = data[offsets()[number] : offsets()[number + 1]]
        expected = [row for row in range(12) if place_of(row) == number]
        if not expected:
            assert block == b""
            continue
        content = lz4.frame.decompress(block)
        batch = pa.ipc.read_record_batch(pa.ipc.read_message(content), block_schema(TABLE_SCHEMA))
        assert batch["id"].to_pylist() == expected


def test_statistics_count_blocks_in_place_of_partitions() -> None:
    data = golden("0.0.a.index")[8 * (BLOCKS + 1) :]
    magic, version, blocks, count = struct.unpack_from(">4sIII", data)
    assert (magic, version, blocks) == (b"IFST", 1, BLOCKS)
    entries = list(struct.iter_unpack(">iiqqQQ", data[16 : 16 + 40 * count]))
    assert [entry[:2] for entry in entries] == sorted({(place_of(row), row % 2) for row in range(12)})


def test_extents_name_parts() -> None:
    data = golden("0.extents")
    magic, version, flags, ranges, files, names_bytes, _ = struct.unpack_from(">4sIIIIII", data)
    assert (magic, version, flags, ranges, files) == (b"IFEX", 1, 1, 4, 2)
    assert struct.unpack_from(">I", data, 28) == (zlib.crc32(data[:28]),)
    directory = list(struct.iter_unpack(">IIIQQQII", data[32 : 32 + 44 * ranges]))
    assert [(entry[0], entry[1], entry[6:]) for entry in directory] == [
        (each.start, each.stop, each.parts or (0, 64)) for each in RANGES
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


def test_extents_with_parts_are_read() -> None:
    store = MemoryStore()
    store.put("0.extents", golden("0.extents"))
    opened = StoredExtents.open(store, "0.extents")
    assert [opened.of(each.range_id).parts for each in RANGES] == [each.parts for each in RANGES]
