"""Moves files as docs/developers/formats.md defines them: written now like then, and read as bytes."""

import struct
import zlib
from pathlib import Path
from typing import Final

import lz4.frame
import numpy as np
import pyarrow as pa
import pytest

from icefloe.batch.reduce.moves import read_entry, read_moves, write_moves_file
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError
from icefloe.shuffle.block_file import SpilledRows
from icefloe.shuffle.blocks import HashRows
from icefloe.storage.location import open_store
from icefloe.storage.store import KeyMissingError, RangeMissingError, Store
from shuffle.memory_store import MemoryStore

GOLDEN: Final = Path(__file__).parent / "golden" / "00004.moves"
RANGES: Final = 4
KEY: Final = "moves/00004.moves"
NUMBERS: Final = np.arange(1, 7).astype(np.uint64)
MOVES: Final = HashRows(
    row_hashes=RowHashes(NUMBERS % np.uint64(2), NUMBERS),
    identity_hashes=RowHashes(NUMBERS, NUMBERS << np.uint64(60)),
    change_ordinals=np.array([0, 1, 0, 1, 0, 1], np.int32),
    weights=np.array([1, -1, 2, -2, 1, -1], np.int64),
)
RANGE_IDS: Final = np.array([1, 3, 1, 3, 1, 3], np.int32)


def stored(content: bytes) -> MemoryStore:
    store = MemoryStore()
    store.put(KEY, content)
    return store


def rows_of(store: Store, range_id: int, *, key: str = KEY) -> pa.Table:
    return pa.Table.from_batches(read_moves(store, key, read_entry(store, key, range_id)))


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_the_same_rows_give_the_same_bytes(tmp_path: Path, memory_bytes: int) -> None:
    with SpilledRows(HashRows.schema(), RANGES, memory_bytes=memory_bytes) as found:
        found.add(MOVES.batch, RANGE_IDS)
        write_moves_file(tmp_path / "file", found, num_ranges=RANGES)
    assert (tmp_path / "file").read_bytes() == GOLDEN.read_bytes()


def test_a_moves_file_reads_as_documented() -> None:
    data = GOLDEN.read_bytes()
    assert struct.unpack_from(">4sIII", data) == (b"IFMV", 1, RANGES, zlib.crc32(data[:12]))
    hashes = [pa.field(name, pa.binary(16)) for name in ("_row", "_identity")]
    schema = pa.schema([*hashes, ("_weight", pa.int64()), ("_change_ordinal", pa.int32())])
    for range_id in range(RANGES):
        entry = data[16 + 24 * range_id :][:24]
        offset, length, crc32, own = struct.unpack(">QQII", entry)
        assert own == zlib.crc32(entry[:20])
        block = data[offset : offset + length]
        assert crc32 == zlib.crc32(block)
        assert bool(length) is (range_id in RANGE_IDS)
        if length:
            content = pa.ipc.read_message(lz4.frame.decompress(block))
            rows = [tuple(row.values()) for row in pa.ipc.read_record_batch(content, schema).to_pylist()]
            assert sum(row[2] for row in rows) == MOVES.weights[range_id == RANGE_IDS].sum()


def test_a_range_reads_its_own_rows() -> None:
    store = stored(GOLDEN.read_bytes())
    assert [read_entry(store, KEY, range_id).length > 0 for range_id in range(RANGES)] == [False, True, False, True]
    assert [rows_of(store, range_id).num_rows for range_id in (1, 3)] == [3, 3]
    with pytest.raises(KeyMissingError):
        rows_of(store, 1, key="moves/00005.moves")


def test_any_byte_that_changes_is_found() -> None:
    content = GOLDEN.read_bytes()
    for place in range(len(content)):
        damaged = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        try:
            found = rows_of(stored(damaged), 1)
        except ValueError:
            continue
        assert found.equals(rows_of(stored(content), 1))


def test_a_file_that_was_cut_is_found(tmp_path: Path) -> None:
    content, store = GOLDEN.read_bytes(), open_store(tmp_path.as_uri())
    for size in range(0, len(content), 11):
        store.put(KEY, content[:size])
        with pytest.raises((ValueError, RangeMissingError)):
            rows_of(store, 3)


def test_a_file_of_another_release_stops() -> None:
    content = bytearray(GOLDEN.read_bytes())
    struct.pack_into(">I", content, 4, 2)
    struct.pack_into(">I", content, 12, zlib.crc32(content[:12]))
    with pytest.raises(TerminalError, match="another release wrote it"):
        rows_of(stored(bytes(content)), 1)
