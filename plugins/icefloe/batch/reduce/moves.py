"""Moves: rows that equal rows of other identities cancel, found in hash ranges before reduce ranges are read.

The delivered columns may not show the identity, as with row ids, or identifier columns that are not selected. A row
removed under one identity may then equal a row added under another one, in another reduce range. Their hash rows are
in the same hash range. A moves file has the rows that cancel by reduce range (docs/developers/formats.md):

    header | entry of range 0 | entry of range 1 | ... | block of range 1 | block of range 4 | ...

A reduce task reads its own entry and, if it is not empty, its own block.
"""

import logging
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate, chain, groupby
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.plan_document import moves_key
from icefloe.batch.reduce.coalesce_map_outputs import BatchExtents, ReduceInputGoneError, load_coalesce_plan
from icefloe.batch.rows.file_effects import Sums
from icefloe.changes.consolidate import consolidate
from icefloe.changes.identity_moves import SharedWeights, combined_hashes
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError
from icefloe.shuffle.block_file import SpilledRows
from icefloe.shuffle.blocks import HashRows
from icefloe.shuffle.coalesce import CoalescePlan
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.fetch import fetch_blocks
from icefloe.storage.local_folders import on_local_disk, task_folder
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import KeyMissingError, RangeMissingError, Store

__all__ = ["found_moves", "hash_rows", "write_moves"]

logger = logging.getLogger(__name__)

_BYTES_PER_ROW: Final = 192
"""Two hashes, ordinal and weight of a row, and memory to consolidate and compare them."""
_MAX_SLICE_BITS: Final = 10
_LEAST_ROWS: Final = 16
_PIECE_ROWS: Final = 1 << 18
_OTHER_BYTES: Final = "bytes of a moves file do not match their checksum"
_MAGIC: Final = b"IFMV"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sII")
_CRC32: Final = struct.Struct(">I")
_ENTRY: Final = struct.Struct(">QQI")
_ENTRIES_AT: Final = _HEADER.size + _CRC32.size
_ENTRY_BYTES: Final = _ENTRY.size + _CRC32.size
_MAX_BLOCK_BYTES: Final = 1 << 31
_CANNOT_KEEP: Final = "the rows that are compared across identities cannot be kept on local disk"


def write_moves(folder: BatchFolder, range_id: int, *, epoch: int) -> None:
    """Writes the moves file of one hash range, or adopts an existing one."""
    # Files of an earlier attempt count, whichever epoch it read: every attempt chooses the same rows. A range deletes a
    # damaged one.
    key, store = moves_key(range_id), folder.store
    if store.size(key) is not None:
        return
    extents, coalesce_plan = BatchExtents(folder, epoch).of(range_id), load_coalesce_plan(folder)
    rows = extents.rows
    with ExitStack() as owned:
        found = owned.enter_context(found_moves(folder, extents, coalesce_plan))
        with on_local_disk(_CANNOT_KEEP):
            path = owned.enter_context(task_folder("moves")) / "moves"
            write_moves_file(path, found, num_ranges=len(coalesce_plan.ranges))
        store.create(key, path)
        cancelled = int(found.rows.sum())
    logger.info("hash range %d: %d of %d rows changed their identity only", range_id, cancelled, rows)


@contextmanager
def found_moves(folder: BatchFolder, extents: RangeExtents, coalesce_plan: CoalescePlan) -> Iterator[SpilledRows]:
    """The rows of a hash range that cancel, by reduce range; on local disk until the context ends."""
    pieces, rows = hash_rows(folder, extents), extents.rows
    with matched_rows(pieces, rows=rows, coalesce_plan=coalesce_plan, memory_bytes=folder.memory_bytes) as found:
        yield found


def hash_rows(folder: BatchFolder, extents: RangeExtents) -> Iterator[HashRows]:
    """Proven to be all hash rows of the range after the last."""
    sums = Sums()
    blocks = fetch_blocks(
        folder.store,
        extents,
        HashRows.schema(),
        max_fetch_bytes=max(1, folder.memory_bytes // 8),
        machine=folder.machine,
    )
    for rows in _gathered(batch for block in blocks for batch in block.batches):
        sums.add_rows(rows.row_hashes, rows.change_ordinals, rows.weights)
        yield rows._replace(change_ordinals=np.zeros_like(rows.change_ordinals)) if folder.plan.is_net else rows
    what = f"hash range {extents.range_id} of batch {folder.plan.batch_number}"
    sums.require(Sums(extents.ordinals), what=what)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[HashRows]:
    """In pieces of about `_PIECE_ROWS`: each is divided or searched as a whole, and blocks may be small."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _PIECE_ROWS:
            yield HashRows.of(pa.concat_batches(waiting))
            waiting, rows = [], 0
    if waiting:
        yield HashRows.of(pa.concat_batches(waiting))


@contextmanager
def matched_rows(
    pieces: Iterable[HashRows], *, rows: int, coalesce_plan: CoalescePlan, memory_bytes: int
) -> Iterator[SpilledRows]:
    """The rows that cancel, by reduce range; on local disk until the context ends."""
    bits = min(_MAX_SLICE_BITS, (max(1, -(-rows * _BYTES_PER_ROW // memory_bytes)) - 1).bit_length())
    #   pieces -> slices by row hash: equal rows meet -> what cancels -> parts by range, by identity hash
    # Only hashes go through it: 44 bytes on disk for a row of any size.
    with _spilled(1 << bits, memory_bytes) as slices, _spilled(len(coalesce_plan.ranges), memory_bytes) as found:
        for piece in pieces:
            # If not all rows fit into memory, many may be copies of one row of one identity, which no slice divides.
            kept = _consolidated(piece) if bits else piece
            slices.add(kept.batch, _first_bits(kept.row_hashes, bits))
        for number in range(1 << bits):
            for cancelled in _cancelled(slices, number, memory_bytes=memory_bytes):
                found.add(cancelled.batch, coalesce_plan.range_ids(cancelled.identity_hashes))
        yield found


def _spilled(num_parts: int, memory_bytes: int) -> SpilledRows:
    return SpilledRows(HashRows.schema(), num_parts, memory_bytes=memory_bytes // 16)


def _rows_of(spilled: SpilledRows, part: int) -> HashRows:
    return HashRows.of(pa.Table.from_batches(spilled.batches(part), HashRows.schema()))


def _cancelled(slices: SpilledRows, number: int, *, memory_bytes: int) -> Iterator[HashRows]:
    rows, most_rows = int(slices.rows[number]), max(_LEAST_ROWS, memory_bytes // _BYTES_PER_ROW)
    if rows <= most_rows:
        left = _consolidated(_rows_of(slices, number))
        yield from _changed(lambda: [left])
        return
    # Many identities have equal rows. So the slice is cut by identity, and the parts are read twice.
    bits = min(_MAX_SLICE_BITS, (-(-rows // most_rows) - 1).bit_length())
    with _spilled(1 << bits, memory_bytes) as parts:
        for batch in slices.batches(number):
            parts.add(batch, _first_bits(HashRows.of(batch).identity_hashes, bits))
        yield from _changed(lambda: (_consolidated(_rows_of(parts, part)) for part in range(1 << bits)))


def _changed(pieces: Callable[[], Iterable[HashRows]]) -> Iterator[HashRows]:
    """Pieces are read twice: for the common weight of equal rows, then for the identities it is taken from."""
    shared = SharedWeights()
    for rows in pieces():
        shared.add(rows.row_hashes, rows.change_ordinals, rows.weights)
    for rows in pieces():
        positions, changes = shared.cancelled(
            row_hashes=rows.row_hashes,
            identity_hashes=rows.identity_hashes,
            change_ordinals=rows.change_ordinals,
            weights=rows.weights,
        )
        yield rows.take(positions)._replace(weights=changes)


def _consolidated(rows: HashRows) -> HashRows:
    keys = combined_hashes(rows.row_hashes, rows.identity_hashes)
    positions, weights = consolidate(keys, rows.change_ordinals, rows.weights)
    return rows.take(positions)._replace(weights=weights)


def _first_bits(hashes: RowHashes, bits: int) -> NDArray[np.int32]:
    """Equal hashes are in the same slice."""
    return (hashes.high >> np.uint64(64 - bits)).astype(np.int32) if bits else np.zeros(len(hashes), np.int32)


def write_moves_file(path: Path, found: SpilledRows, *, num_ranges: int) -> None:
    """Writes a file on local disk. Holds a part of one range at a time."""
    with path.open("wb") as file:
        file.write(bytes(_ENTRIES_AT + num_ranges * _ENTRY_BYTES))
        blocks = found.written_to(file)
        starts = _ENTRIES_AT + num_ranges * _ENTRY_BYTES + blocks.offsets
        entries = zip(starts.tolist(), np.diff(starts).tolist(), blocks.block_crc32.tolist(), strict=False)
        file.seek(0)
        file.write(
            b"".join(
                [
                    _sealed(_HEADER.pack(_MAGIC, _VERSION, num_ranges)),
                    *(_sealed(_ENTRY.pack(*entry)) for entry in entries),
                ]
            )
        )


class MovesEntry(NamedTuple):
    """The place of a reduce range's rows in a moves file; no bytes: it has none there."""

    offset: int
    length: int
    crc32: int


def read_entry(store: Store, key: str, range_id: int) -> MovesEntry:
    """Place of the rows of one reduce range."""
    entry_at = _ENTRIES_AT + range_id * _ENTRY_BYTES
    header, entry = store.get_ranges(key, [(0, _ENTRIES_AT), (entry_at, entry_at + _ENTRY_BYTES)])
    magic, version, _ = _HEADER.unpack(_unsealed(header))
    if (magic, version) != (_MAGIC, _VERSION):
        raise TerminalError(
            f"{store.url}/{key} is a moves file of version {version}, and this release knows version {_VERSION}; "
            "another release wrote it, go on with that release"
        )
    return MovesEntry(*_ENTRY.unpack(_unsealed(entry)))


def read_moves(store: Store, key: str, entry: MovesEntry) -> list[pa.RecordBatch]:
    """Hash rows of one reduce range."""
    [block] = store.get_ranges(key, [(entry.offset, entry.offset + entry.length)])
    if zlib.crc32(block) != entry.crc32:
        raise ValueError(_OTHER_BYTES)
    return HashRows.batches_in(block, max_bytes=_MAX_BLOCK_BYTES)


def _sealed(data: bytes) -> bytes:
    return data + _CRC32.pack(zlib.crc32(data))


def _unsealed(data: bytes) -> bytes:
    content, seal = data[: -_CRC32.size], data[-_CRC32.size :]
    if _CRC32.pack(zlib.crc32(content)) != seal:
        raise ValueError(_OTHER_BYTES)
    return content


def load_moves(folder: BatchFolder, extents: BatchExtents, range_id: int) -> Iterator[HashRows]:
    """The rows to cancel, part by part; none if the delivered columns show the identity."""
    if not folder.shape.is_identity_carried:
        return

    def entry_of(key: str) -> MovesEntry:
        with _needed(folder, keys, key, range_id):
            return read_entry(folder.store, key, range_id)

    def rows_of(found: tuple[str, MovesEntry]) -> list[pa.RecordBatch]:
        with _needed(folder, keys, found[0], range_id):
            return read_moves(folder.store, *found)

    keys = [moves_key(hash_range_id) for hash_range_id in extents.hash_range_ids]
    entries = map_parallel(entry_of, keys)
    filled = [(key, entry) for key, entry in zip(keys, entries, strict=True) if entry.length]
    # Most rows of a hash range may be of this reduce range, so not all blocks fit into memory.
    at_once = max(1, folder.memory_bytes // 16)
    ends = accumulate(entry.length for _, entry in filled)
    for _, some in groupby(zip(ends, filled, strict=True), key=lambda each: each[0] // at_once):
        yield from _gathered(chain.from_iterable(map_parallel(rows_of, [found for _, found in some])))


@contextmanager
def _needed(folder: BatchFolder, keys: Sequence[str], key: str, range_id: int) -> Iterator[None]:
    """Names the file that a range lacks. All are deleted, to be written again: damage seldom comes alone."""
    try:
        yield
    except (KeyMissingError, RangeMissingError, ValueError) as cause:
        url = folder.store.url
        folder.store.delete(keys)
        raise ReduceInputGoneError(
            f"the moves file {url}/{key}, which range {range_id} needs, is gone or damaged: run again, the next try of "
            "shuffle_read writes it once more",
            url=url,
            key=key,
            are_extents=False,
        ) from cause


class CancelledRows(ExitStack):
    """Takes the moves of a range, then gives those that a piece of it may hold. Owns a temporary file: close it."""

    def __init__(self, extents: RangeExtents, *, num_partitions: int, memory_bytes: int) -> None:
        super().__init__()
        self._extents = extents
        self._num_partitions = num_partitions
        # They may be more than memory holds: kept by their places in the range, in whose order pieces come.
        self._spilled = self.enter_context(_spilled(extents.num_places, memory_bytes))

    def add(self, rows: HashRows) -> None:
        """Takes moves."""
        self._spilled.add(rows.batch, self._places(rows.identity_hashes))

    def of(self, keys: RowHashes, identities: RowHashes) -> Iterator[HashRows]:
        """The moves of rows with these `combined_hashes`, and perhaps a few more."""
        if not self._spilled.rows.any():
            return
        known = np.sort(keys.low)
        places = np.unique(self._places(identities)).tolist()
        for rows in _gathered(chain.from_iterable(map(self._spilled.batches, places))):
            asked = combined_hashes(rows.row_hashes, rows.identity_hashes).low
            found = np.minimum(np.searchsorted(known, asked), len(known) - 1)
            yield rows.take(np.flatnonzero(known[found] == asked))

    def _places(self, identities: RowHashes) -> NDArray[np.int32]:
        return self._extents.places(identities, self._num_partitions)
