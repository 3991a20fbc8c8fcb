import zlib
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.shuffle import extents_file
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.extents_file import CorruptExtentsError, StoredExtents, store_extents
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
    monkeypatch.setattr(extents_file, "_INLINE_BYTES", request.param)
    store = MemoryStore()
    store_extents(store, "0.extents", planned, planned[0].files)
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
    assert StoredExtents.open(stored, "0.extents").head.rows == 41
    for extents, expected in zip(read_all(stored), planned, strict=True):
        require_same(extents, expected)


def test_lengths_past_4_gib_come_back(planned):
    blocks = planned[0].blocks.copy()
    blocks["length"][0], blocks["rows"][1] = 5 << 32, 7 << 32
    blocks["offset"] = np.cumsum(blocks["length"]) - blocks["length"] + (9 << 32)
    blocks["output"] = 0
    large, store = replace(planned[0], blocks=blocks), MemoryStore()
    store_extents(store, "0.extents", [large], large.files)
    require_same(StoredExtents.open(store, "0.extents").of(0), large)


def test_every_damaged_byte_is_detected(stored):
    for key in list(stored.objects):
        for position in range(len(stored.objects[key])):
            stored.flip(key, position)
            with pytest.raises((CorruptExtentsError, KeyMissingError)):
                read_all(stored)
            stored.flip(key, position)


def test_every_truncation_of_the_head_is_detected(stored):
    whole = stored.objects["0.extents"]
    for length in range(len(whole)):
        stored.objects["0.extents"] = whole[:length]
        with pytest.raises(CorruptExtentsError):
            read_all(stored)


def test_a_newer_version_is_no_damage(planned):
    store = MemoryStore()
    store_extents(store, "0.extents", planned, planned[0].files)
    data = bytearray(store.objects["0.extents"])
    data[7] = 9
    data[28:32] = crc32_of(bytes(data[:28]))
    store.objects["0.extents"] = bytes(data)
    with pytest.raises(TerminalError, match="extents of version 9 cannot be read by this release"):
        StoredExtents.open(store, "0.extents")


def crc32_of(data):
    return zlib.crc32(data).to_bytes(4, "big")


def test_sections_are_never_read_under_the_head_of_other_ones(planned, monkeypatch):
    monkeypatch.setattr(extents_file, "_INLINE_BYTES", 0)
    store = MemoryStore()
    store_extents(store, "0.extents", planned, planned[0].files)
    opened = StoredExtents.open(store, "0.extents")
    store_extents(store, "0.extents", planned[:1], planned[0].files)
    require_same(opened.of(1), planned[1])


def test_a_full_disk_under_the_sections_is_one_sentence(planned, monkeypatch, tmp_path):
    monkeypatch.setattr(extents_file, "_INLINE_BYTES", 0)
    monkeypatch.setattr(extents_file, "task_folder", lambda *_: nullcontext(tmp_path))
    (tmp_path / "sections").symlink_to("/dev/full")
    # As many as no buffer holds: the file is written, and fails, before it is closed.
    many = [replace(planned[0], range_id=number) for number in range(200)]
    with pytest.raises(TransientError, match=r"cannot be written to local disk: .*No space left on device"):
        store_extents(MemoryStore(), "0.extents", many, planned[0].files)
