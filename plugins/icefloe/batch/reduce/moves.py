"""Moves: rows that cancel across identities, spilled by range and stored in moves files.

A moves file has the rows by reduce range (docs/developers/formats.md):

    header | entry of range 0 | entry of range 1 | ... | block of range 1 | block of range 4 | ... | checksum

A reduce task reads its own entry and, if it is not empty, its own block.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.batch_keys import moves_key
from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.reduce.batch_extents import BatchExtents, ReduceInputGoneError
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError, TransientError
from icefloe.shuffle.blocks import CorruptBlockError, decode_block, encode_block
from icefloe.storage.local_folders import KeepsLocalFiles, on_local_disk, task_folder
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import KeyMissingError, RangeMissingError, Store

CANNOT_KEEP: Final = "the rows that are compared across identities cannot be kept on local disk"
_MAX_BYTES: Final = 1 << 31
_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.uint64()) for name in ("row_high", "row_low", "identity_high", "identity_low")),
        pa.field("change_ordinal", pa.int32()),
        pa.field("weight", pa.int64()),
    ]
)
_RECORD: Final = np.dtype([(field.name, field.type.to_pandas_dtype()) for field in _SCHEMA])
_MAGIC: Final = b"IFMV"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sII")
_CRC32: Final = struct.Struct(">I")
_ENTRY: Final = struct.Struct(">QQI")
_ENTRIES_AT: Final = _HEADER.size + _CRC32.size
_ENTRY_BYTES: Final = _ENTRY.size + _CRC32.size
_READ_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedHashes:
    """Rows by their hashes, and their weights; all arrays have one length.

    Attributes:
        change_ordinals: 0 if changes are net.
        weights: of each row, or to add to it.
    """

    row_hashes: RowHashes
    identity_hashes: RowHashes
    change_ordinals: NDArray[np.int32]
    weights: NDArray[np.int64]

    @classmethod
    def none(cls) -> Self:
        """No rows."""
        return cls._of(np.zeros(0, _RECORD))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts in order."""
        return cls(
            row_hashes=RowHashes.concat(part.row_hashes for part in parts),
            identity_hashes=RowHashes.concat(part.identity_hashes for part in parts),
            change_ordinals=np.concatenate([np.zeros(0, np.int32), *(part.change_ordinals for part in parts)]),
            weights=np.concatenate([np.zeros(0, np.int64), *(part.weights for part in parts)]),
        )

    def ordered(self) -> Self:
        """Rows in an order that depends on nothing but the rows, if no two are the same."""
        return self.take(np.lexsort(self._columns()[::-1]))

    def take(self, positions: NDArray[np.int64]) -> Self:
        """The rows at some positions."""
        return type(self)(
            row_hashes=self.row_hashes.take(positions),
            identity_hashes=self.identity_hashes.take(positions),
            change_ordinals=self.change_ordinals[positions],
            weights=self.weights[positions],
        )

    def split(self, numbers: NDArray[np.int32], count: int) -> dict[int, Self]:
        """Rows by number, without empty ones."""
        # NumPy sorts few bits faster.
        order = np.argsort(numbers.astype(np.min_scalar_type(count)), kind="stable")
        counts = np.bincount(numbers, minlength=count)
        starts = np.cumsum(counts) - counts
        return {
            number: self.take(order[starts[number] : starts[number] + counts[number]])
            for number in np.flatnonzero(counts).tolist()
        }

    def slice(self, start: int, stop: int) -> Self:
        """Rows of a slice, not copied."""
        return type(self)(
            row_hashes=self.row_hashes.slice(start, stop),
            identity_hashes=self.identity_hashes.slice(start, stop),
            change_ordinals=self.change_ordinals[start:stop],
            weights=self.weights[start:stop],
        )

    def to_bytes(self) -> bytes:
        """One shuffle block, with its checksum; never empty, because a file that lost its bytes is."""
        rows = pa.RecordBatch.from_arrays([pa.array(values) for values in self._columns()], schema=_SCHEMA)
        return encode_block([rows])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Reverses ``to_bytes``."""
        rows = pa.Table.from_batches(decode_block(data, _SCHEMA, max_bytes=_MAX_BYTES), _SCHEMA)
        return cls._from_columns([column.to_numpy() for column in rows.columns])

    def append_to(self, path: Path) -> None:
        """Appends the rows to a file of this process."""
        records = np.empty(len(self.weights), _RECORD)
        for name, values in zip(_SCHEMA.names, self._columns(), strict=True):
            records[name] = values
        with path.open("ab") as file:
            records.tofile(file)

    @classmethod
    def from_file(cls, path: Path, *, start: int = 0, rows: int = -1) -> Self:
        """Appended rows: as many as given, or all from ``start`` on."""
        return cls._of(np.fromfile(path, _RECORD, rows, offset=start * _RECORD.itemsize))

    @classmethod
    def _of(cls, records: NDArray[np.void]) -> Self:
        return cls._from_columns([np.ascontiguousarray(records[name]) for name in _SCHEMA.names])

    @classmethod
    def _from_columns(cls, columns: Sequence[NDArray[Any]]) -> Self:
        row_high, row_low, identity_high, identity_low, ordinals, weights = columns
        return cls(
            row_hashes=RowHashes(row_high, row_low),
            identity_hashes=RowHashes(identity_high, identity_low),
            change_ordinals=ordinals,
            weights=weights,
        )

    def _columns(self) -> list[NDArray[Any]]:
        lanes = (self.row_hashes.high, self.row_hashes.low, self.identity_hashes.high, self.identity_hashes.low)
        return [*lanes, self.change_ordinals, self.weights]


class SpilledMoves(KeepsLocalFiles):
    """Rows on local disk, by number; more of them than memory holds."""

    def __init__(self, folder: Path | None) -> None:
        super().__init__()
        with on_local_disk(CANNOT_KEEP):
            self._folder = self._owned.enter_context(task_folder("moves", folder))

    def add(self, rows: WeightedHashes, numbers: NDArray[np.int32], count: int) -> None:
        """Adds rows under their numbers, below ``count``."""
        with on_local_disk(CANNOT_KEEP):
            for number, part in rows.split(numbers, count).items():
                part.append_to(self._path(number))

    def of(self, number: int) -> WeightedHashes:
        """All rows of a number."""
        path = self._path(number)
        with on_local_disk(CANNOT_KEEP):
            return WeightedHashes.from_file(path) if path.exists() else WeightedHashes.none()

    def rows_of(self, number: int) -> int:
        """Count of the rows of a number."""
        path = self._path(number)
        with on_local_disk(CANNOT_KEEP):
            return path.stat().st_size // _RECORD.itemsize if path.exists() else 0

    def pieces_of(self, number: int, rows: int) -> Iterator[WeightedHashes]:
        """Rows of a number, in pieces of at most ``rows``."""
        for start in range(0, self.rows_of(number), rows):
            with on_local_disk(CANNOT_KEEP):
                yield WeightedHashes.from_file(self._path(number), start=start, rows=rows)

    def _path(self, number: int) -> Path:
        return self._folder / str(number)


class CorruptMovesError(TransientError):
    """A moves file is not what its task wrote; it must be written again."""

    reason: str


def write_moves_file(path: Path, found: SpilledMoves, *, num_ranges: int) -> int:
    """Writes a file on local disk; the same rows give the same bytes. Holds one range at a time."""
    entries, rows = [], 0
    with path.open("w+b") as file:
        file.write(bytes(_ENTRIES_AT + num_ranges * _ENTRY_BYTES))
        for range_id in range(num_ranges):
            moves = found.of(range_id)
            block = moves.ordered().to_bytes() if len(moves.weights) else b""
            entries.append(_sealed(_ENTRY.pack(file.tell() if block else 0, len(block), zlib.crc32(block))))
            rows += len(moves.weights)
            file.write(block)
        file.seek(0)
        file.write(b"".join([_sealed(_HEADER.pack(_MAGIC, _VERSION, num_ranges)), *entries]))
        file.seek(0)
        crc32 = 0
        while data := file.read(_READ_BYTES):
            crc32 = zlib.crc32(data, crc32)
        file.write(_CRC32.pack(crc32))
    return rows


def has_whole_moves(store: Store, key: str) -> bool:
    """True if there is a moves file and every byte is as it was written."""
    size_bytes = store.size(key)
    if size_bytes is None or size_bytes < _ENTRIES_AT + _CRC32.size:
        return False
    crc32, end = 0, size_bytes - _CRC32.size
    for start in range(0, end, _READ_BYTES):
        [data] = store.get_ranges(key, [(start, min(end, start + _READ_BYTES))])
        crc32 = zlib.crc32(data, crc32)
    return _CRC32.pack(crc32) == store.get_ranges(key, [(end, size_bytes)])[0]


class MovesEntry(NamedTuple):
    """The place of a reduce range's rows in a moves file.

    Attributes:
        length: of the block in bytes; 0: the range has no rows there.
    """

    offset: int
    length: int
    crc32: int


def read_entry(store: Store, key: str, range_id: int) -> MovesEntry:
    """Place of the rows of one reduce range."""
    entry_at = _ENTRIES_AT + range_id * _ENTRY_BYTES
    with _whole():
        header, entry = store.get_ranges(key, [(0, _ENTRIES_AT), (entry_at, entry_at + _ENTRY_BYTES)])
    magic, version, _ = _HEADER.unpack(_unsealed(header))
    if (magic, version) != (_MAGIC, _VERSION):
        raise TerminalError(
            f"{store.url}/{key} is a moves file of version {version}, and this release knows version {_VERSION}; "
            "another release wrote it, go on with that release"
        )
    return MovesEntry(*_ENTRY.unpack(_unsealed(entry)))


def read_moves(store: Store, key: str, entry: MovesEntry) -> WeightedHashes:
    """Rows of one reduce range."""
    if not entry.length:
        return WeightedHashes.none()
    with _whole():
        [block] = store.get_ranges(key, [(entry.offset, entry.offset + entry.length)])
    if zlib.crc32(block) != entry.crc32:
        raise _corrupt("a block does not match its checksum")
    try:
        return WeightedHashes.from_bytes(block)
    except CorruptBlockError as cause:
        raise _corrupt(cause.reason) from cause


@contextmanager
def _whole() -> Iterator[None]:
    try:
        yield
    except RangeMissingError as cause:
        raise _corrupt("it was cut") from cause


def _sealed(data: bytes) -> bytes:
    return data + _CRC32.pack(zlib.crc32(data))


def _unsealed(data: bytes) -> bytes:
    content, seal = data[: -_CRC32.size], data[-_CRC32.size :]
    if _CRC32.pack(zlib.crc32(content)) != seal:
        raise _corrupt("its header or an entry does not match its checksum")
    return content


def _corrupt(reason: str) -> CorruptMovesError:
    return CorruptMovesError(f"a moves file is damaged: {reason}; run again, which writes it once more", reason=reason)


def load_moves(folder: BatchFolder, extents: BatchExtents, range_id: int) -> Iterator[WeightedHashes]:
    """The rows to cancel, part by part; none if the delivered columns show the identity."""
    if not folder.shape.is_identity_carried:
        return

    def entry_of(key: str) -> MovesEntry:
        try:
            return read_entry(folder.store, key, range_id)
        except (KeyMissingError, CorruptMovesError) as cause:
            raise _gone(folder, key, range_id) from cause

    def rows_of(found: tuple[str, MovesEntry]) -> WeightedHashes:
        try:
            return read_moves(folder.store, *found)
        except (KeyMissingError, CorruptMovesError) as cause:
            raise _gone(folder, found[0], range_id) from cause

    at_once = folder.store.requests_at_once
    keys = [moves_key(hash_range_id) for hash_range_id in extents.hash_range_ids]
    entries = map_parallel(entry_of, keys, at_once=at_once)
    filled = [(key, entry) for key, entry in zip(keys, entries, strict=True) if entry.length]
    # Most rows of a hash range may be of this reduce range, so not all blocks fit into memory.
    for some in _together(filled, most_bytes=folder.memory_bytes // 16):
        yield from map_parallel(rows_of, some, at_once=at_once)


def _together(
    found: Sequence[tuple[str, MovesEntry]], *, most_bytes: int
) -> Iterator[Sequence[tuple[str, MovesEntry]]]:
    """Neighbouring entries whose blocks fit together, at least one."""
    some: list[tuple[str, MovesEntry]] = []
    size_bytes = 0
    for key, entry in found:
        if some and size_bytes + entry.length > most_bytes:
            yield some
            some, size_bytes = [], 0
        some.append((key, entry))
        size_bytes += entry.length
    if some:
        yield some


def _gone(folder: BatchFolder, key: str, range_id: int) -> ReduceInputGoneError:
    url = folder.store.url
    return ReduceInputGoneError(
        f"the moves file {url}/{key}, which range {range_id} needs, is gone or damaged: run again, the next try of "
        "shuffle_read writes it once more",
        url=url,
        key=key,
        are_extents=False,
    )
