"""The rows of a reduce range that equal rows of other identities cancel, by piece of the range."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from icefloe.batch.reduce.moves import CANNOT_KEEP, WeightedHashes
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.partitions import reduce_ids
from icefloe.storage.local_folders import KeepsLocalFiles, on_local_disk, task_folder

_BYTES_PER_ROW: Final = 176
"""Two hashes, ordinal and weight of a row that waits, once as it came and once in order; its partition and place."""
_LEAST_WAITING_ROWS: Final = 1 << 17
_ROWS_PER_MARK: Final = 256


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
