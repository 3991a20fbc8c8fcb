"""Map outputs whose statistics are in a file of their own: commit records before version 4."""

import zlib
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.committed_output import read_committed_output
from icefloe.shuffle.map_output_record import CorruptMapOutputError, MapOutputRecord
from shuffle.memory_store import MemoryStore
from shuffle.shuffled_rows import TABLE_SCHEMA

HERE: Final = Path(__file__).parent
OLD: Final = HERE / "golden_of_older_releases"
SCHEMA: Final = block_schema(TABLE_SCHEMA)
KINDS: Final = {"plain": (1, 8, "golden"), "divided": (3, 4, "golden_divided")}


def stored(folder: Path) -> tuple[MemoryStore, MapOutputRecord]:
    """The files of a folder, and the commit record among them."""
    store = MemoryStore()
    for path in folder.iterdir():
        store.put(path.name, path.read_bytes())
    return store, MapOutputRecord.from_json(store.get("0.0"), map_id=0, generation=0)


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_map_output_has_what_it_had(kind: str) -> None:
    version, partitions, new_folder = KINDS[kind]
    (store, record), (new_store, new_record) = stored(OLD / kind), stored(HERE / new_folder)
    assert (record.version, new_record.version) == (version, 4)
    old = read_committed_output(store, record, schema=SCHEMA, num_partitions=partitions)
    new = read_committed_output(new_store, new_record, schema=SCHEMA, num_partitions=partitions)
    assert old.numbers == new.numbers
    assert np.array_equal(old.offsets, new.offsets)
    assert np.array_equal(old.block_crc32, new.block_crc32)
    for name in new.statistics.__slots__:
        assert np.array_equal(getattr(old.statistics, name), getattr(new.statistics, name)), name


@pytest.mark.parametrize("name", ["index", "statistics"])
def test_every_damaged_byte_of_an_older_map_output_is_detected(name: str) -> None:
    store, record = stored(OLD / "plain")
    key = f"0.0.a.{name}"
    whole = store.objects[key]
    for position in range(len(whole)):
        store.flip(key, position)
        with pytest.raises(CorruptMapOutputError):
            read_committed_output(store, record, schema=SCHEMA, num_partitions=8)
        store.objects[key] = whole


def test_an_older_map_output_without_its_statistics_is_never_an_empty_one() -> None:
    store, record = stored(OLD / "plain")
    store.delete(["0.0.a.statistics"])
    with pytest.raises(CorruptMapOutputError, match="is gone"):
        read_committed_output(store, record, schema=SCHEMA, num_partitions=8)


def test_a_record_of_version_4_has_its_statistics_in_the_index_file() -> None:
    old, new = HERE.parent / "shuffle/golden_of_older_releases/plain", HERE / "golden"
    assert (new / "0.0.a.index").read_bytes() == b"".join(
        (old / f"0.0.a.{name}").read_bytes() for name in ("index", "statistics")
    )


def test_an_older_record_of_a_node_is_read() -> None:
    data = (OLD / "node" / "0.0").read_bytes()
    record = MapOutputRecord.from_json(data, map_id=0, generation=0)
    assert (record.version, record.data and record.data.key) == (2, "//worker-1:4995/5f0c/7/0.0.a.data")
    assert record.statistics is not None
    assert zlib.crc32(data), "the document is there"
