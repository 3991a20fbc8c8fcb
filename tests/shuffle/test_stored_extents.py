import zlib
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icefloe.errors import TerminalError, TransientError
from icefloe.shuffle import extents as extents_module
from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.committed_output import MapOutputLog
from icefloe.shuffle.extents import StoredExtents, write_extents
from icefloe.storage.store import KeyMissingError
from shuffle.memory_store import MemoryStore
from shuffle.planned_extents import planned_extents
from shuffle.shuffled_rows import TABLE_SCHEMA, commit_rows, some_rows

P = 8
RANGES = [ReduceRange(range_id=0, start=0, stop=3), ReduceRange(range_id=1, start=3, stop=8)]


@pytest.fixture(scope="module")
def planned():
    store = MemoryStore()
    records = [
        commit_rows(store, some_rows(rows, num_partitions=P, ordinals=2), num_partitions=P, map_id=map_id)
        for map_id, rows in enumerate([40, 0, 1])
    ]
    return planned_extents(store, records, RANGES, table_schema=TABLE_SCHEMA, num_partitions=P)


@pytest.fixture(params=[1 << 20, 0], ids=["sections behind the head", "sections in an object of their own"])
def stored(planned, request, monkeypatch):
    monkeypatch.setattr(extents_module, "_INLINE_BYTES", request.param)
    store = MemoryStore()
    write_extents(store, "0.extents", planned, planned[0].files)
    assert len(store.objects) == (1 if request.param else 2)
    return store


def read_all(store):
    opened = StoredExtents.open(store, "0.extents")
    return [opened.of(range_id) for range_id in range(len(RANGES))]


def require_same(extents, expected):
    assert (extents.range_id, extents.start, extents.stop) == (expected.range_id, expected.start, expected.stop)
    assert extents.ordinals == expected.ordinals
    assert extents.blocks.tolist() == expected.blocks.tolist()
    assert list(extents.files) == list(expected.files)


def test_the_extents_of_each_range_come_back(stored, planned):
    for extents, expected in zip(read_all(stored), planned, strict=True):
        require_same(extents, expected)


def test_lengths_past_4_gib_come_back(planned):
    blocks = planned[0].blocks.copy()
    blocks["length"][0], blocks["rows"][1] = 5 << 32, 7 << 32
    blocks["offset"] = np.cumsum(blocks["length"]) - blocks["length"] + (9 << 32)
    blocks["output"] = 0
    large, store = replace(planned[0], blocks=blocks), MemoryStore()
    write_extents(store, "0.extents", [large], large.files)
    require_same(StoredExtents.open(store, "0.extents").of(0), large)


def test_every_damaged_byte_is_detected(stored):
    for key in list(stored.objects):
        for position in range(len(stored.objects[key])):
            stored.flip(key, position)
            with pytest.raises((ValueError, KeyMissingError)):
                read_all(stored)
            stored.flip(key, position)


def test_a_newer_version_is_no_damage(store, planned):
    write_extents(store, "0.extents", planned, planned[0].files)
    data = bytearray(store.objects["0.extents"])
    data[7] = 9
    data[24:28] = crc32_of(bytes(data[:24]))
    store.objects["0.extents"] = bytes(data)
    with pytest.raises(TerminalError, match="extents of version 9 cannot be read by this release"):
        StoredExtents.open(store, "0.extents")


def crc32_of(data):
    return zlib.crc32(data).to_bytes(4, "big")


def test_sections_are_never_read_under_the_head_of_other_ones(store, planned, monkeypatch):
    monkeypatch.setattr(extents_module, "_INLINE_BYTES", 0)
    write_extents(store, "0.extents", planned, planned[0].files)
    opened = StoredExtents.open(store, "0.extents")
    write_extents(store, "0.extents", planned[:1], planned[0].files)
    require_same(opened.of(1), planned[1])


def committed(counts):
    """Map outputs of so many rows of two change ordinals."""
    store = MemoryStore()
    records = [
        commit_rows(
            store, some_rows(rows, num_partitions=P, ordinals=2, first_id=100 * map_id), num_partitions=P, map_id=map_id
        )
        for map_id, rows in enumerate(counts)
    ]
    outputs, _ = MapOutputLog(store).read(records, schema=BlockRows.schema(TABLE_SCHEMA), num_partitions=P)
    return store, records, outputs


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    bounds=st.sets(st.integers(1, P - 1), max_size=4),
    group_blocks=st.integers(1, 40),
)
def test_each_range_gets_exactly_its_blocks_whatever_goes_to_disk(counts, bounds, group_blocks):
    store, records, outputs = committed(counts)
    edges = [0, *sorted(bounds), P]
    ranges = [
        ReduceRange(range_id=number, start=start, stop=stop) for number, (start, stop) in enumerate(pairwise(edges))
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(extents_module, "_GROUP_BLOCKS", group_blocks)
        planned = planned_extents(store, records, ranges, table_schema=TABLE_SCHEMA, num_partitions=P)
    assert [(each.range_id, each.start, each.stop) for each in planned] == [
        (each.range_id, each.start, each.stop) for each in ranges
    ]
    for extents in planned:
        found = [
            (extents.files[output].map_id, reduce_id, offset, length, rows, crc32)
            for output, reduce_id, crc32, offset, length, rows in extents.blocks.tolist()
        ]
        assert found == [
            (output.record.map_id, reduce_id, output.record.blocks_at + start, stop - start, rows, crc32)
            for output in outputs
            for reduce_id, (start, stop, rows, crc32) in enumerate(
                zip(
                    output.offsets.tolist(),
                    output.offsets[1:].tolist(),
                    output.statistics.partition_rows(P).tolist(),
                    output.block_crc32.tolist(),
                    strict=False,
                )
            )
            if rows and extents.start <= reduce_id < extents.stop
        ]
        assert extents.size_bytes == sum(length for _, _, _, length, _, _ in found)


def test_rows_that_no_range_covers_are_never_dropped():
    store, records, _ = committed([40])
    with pytest.raises(TerminalError, match="reduce partition 3 has rows and no reduce range covers it"):
        planned_extents(store, records, RANGES[:1], table_schema=TABLE_SCHEMA, num_partitions=P)


def test_a_full_disk_under_the_blocks_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(extents_module, "_GROUP_BLOCKS", 1)
    monkeypatch.setattr(extents_module, "task_folder", lambda *_: nullcontext(tmp_path))
    (tmp_path / "blocks").symlink_to("/dev/full")
    store, records, _ = committed([40] * 60)
    with pytest.raises(TransientError, match=r"cannot be put in order: .*No space left on device"):
        planned_extents(store, records, RANGES, table_schema=TABLE_SCHEMA, num_partitions=P)
