"""Moves: rows by their hashes that equal rows of other identities cancel, more of them than memory holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.blocks import decode_block, encode_block
from icefloe.shuffle.coalesce import reduce_ids
from icefloe.storage.local_folders import KeepsLocalFiles, on_local_disk, task_folder

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
_BYTES_PER_ROW: Final = 176
"""Two hashes, ordinal and weight of a row that waits, once as it came and once in order; its partition and place."""
_LEAST_WAITING_ROWS: Final = 1 << 17
_ROWS_PER_MARK: Final = 256


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Upper halves of hashes, ordered by reduce partition, identity and row."""

    partitions: NDArray[np.int32]
    identities: NDArray[np.uint64]
    rows: NDArray[np.uint64]

    @classmethod
    def of(cls, rows: WeightedHashes, num_partitions: int) -> Self:
        partitions = reduce_ids(rows.identity_hashes, num_partitions)
        return cls(partitions=partitions, identities=rows.identity_hashes.high, rows=rows.row_hashes.high)

    def order(self) -> NDArray[np.int64]:
        return np.lexsort((self.rows, self.identities, self.partitions))

    def take(self, positions: NDArray[np.int64] | slice) -> Self:
        return type(self)(
            partitions=self.partitions[positions], identities=self.identities[positions], rows=self.rows[positions]
        )

    def between(self, least: "_Places", most: "_Places") -> tuple[int, int]:
        """First place not below ``least``, and first above ``most``."""
        first, after = 0, len(self.partitions)
        for values, low, high in (
            (self.partitions, least.partitions, most.partitions),
            (self.identities, least.identities, most.identities),
            (self.rows, least.rows, most.rows),
        ):
            some = values[first:after]
            below, up_to = int(np.searchsorted(some, low[0])), int(np.searchsorted(some, high[0], "right"))
            first, after = first + below, first + up_to
            if low[0] != high[0]:
                break
        return first, after


@dataclass(frozen=True, slots=True)
class _Run:
    rows: WeightedHashes
    places: _Places

    def between(self, least: _Places, most: _Places) -> WeightedHashes:
        return self.rows.slice(*self.places.between(least, most))


@dataclass(frozen=True, slots=True)
class _SpilledRun:
    """Rows in a file; one of `_ROWS_PER_MARK` is in memory."""

    path: Path
    marks: _Places
    num_partitions: int

    def between(self, least: _Places, most: _Places) -> WeightedHashes:
        first, after = self.marks.between(least, most)
        # Rows behind the last mark that is too low may be high enough.
        start, stop = max(0, first - 1) * _ROWS_PER_MARK, after * _ROWS_PER_MARK
        with on_local_disk(CANNOT_KEEP):
            rows = WeightedHashes.from_file(self.path, start=start, rows=stop - start)
        return _Run(rows, _Places.of(rows, self.num_partitions)).between(least, most)


class CancelledRows(KeepsLocalFiles):
    """Takes the rows in any order, then gives those that a piece of the range may hold.

    One identity may have most of them. So they wait in memory up to a sixteenth of the task's memory, then go to disk
    as a run in the order of partition, identity and row, in which the pieces of a range are neighbours. A context
    manager: it owns temporary files.
    """

    def __init__(self, num_partitions: int, *, memory_bytes: int, disk: Path | None = None) -> None:
        super().__init__()
        self._num_partitions = num_partitions
        self._most_waiting = max(_LEAST_WAITING_ROWS, memory_bytes // 16 // _BYTES_PER_ROW)
        self._disk = disk
        self._folder: Path | None = None
        self._waiting: list[WeightedHashes] = []
        self._waiting_rows = 0
        self._runs: list[_Run | _SpilledRun] = []

    def add(self, rows: WeightedHashes) -> None:
        """Takes rows."""
        for start in range(0, len(rows.weights), self._most_waiting):
            some = rows.slice(start, start + self._most_waiting)
            if self._waiting_rows + len(some.weights) > self._most_waiting:
                self._spill()
            self._waiting.append(some)
            self._waiting_rows += len(some.weights)

    def of(self, hashes: RowHashes, identities: RowHashes) -> WeightedHashes:
        """Rows that a piece of one reduce partition may hold, and perhaps a few more."""
        if self._waiting:
            self._runs.append(_Run(*self._in_order()))
        partitions = reduce_ids(identities.slice(0, 1), self._num_partitions)
        least, most = (
            _Places(
                partitions=partitions,
                identities=np.array([end(identities.high)]),
                rows=np.array([end(hashes.high)]),
            )
            for end in (np.min, np.max)
        )
        return WeightedHashes.concat([run.between(least, most) for run in self._runs])

    def _in_order(self) -> tuple[WeightedHashes, _Places]:
        rows = WeightedHashes.concat(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        places = _Places.of(rows, self._num_partitions)
        order = places.order()
        return rows.take(order), places.take(order)

    def _spill(self) -> None:
        with on_local_disk(CANNOT_KEEP):
            if self._folder is None:
                self._folder = self._owned.enter_context(task_folder("moves", self._disk))
            rows, places = self._in_order()
            path = self._folder / str(len(self._runs))
            rows.append_to(path)
        self._runs.append(_SpilledRun(path, places.take(slice(None, None, _ROWS_PER_MARK)), self._num_partitions))
