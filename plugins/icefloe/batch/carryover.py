"""Carry-over, cancelled before the shuffle: the rows of a group of files that really changed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.audit.sums import AuditError
from icefloe.batch.document import FileWork
from icefloe.changes.alignment import aligned_batches, differing_rows
from icefloe.changes.consolidate import surviving_rows
from icefloe.changes.row_hash import RowHashes, row_hashes_of_batch

__all__ = ["CarryOver", "ChangedRows", "ReadTally", "RowReader"]

Positions = NDArray[np.int64]
_Effect = tuple[int, int, Positions | None]
"""(change_ordinal, weight, positions of the rows that have it, ascending; None: all rows)."""
_ALIGNED_SHARE: Final = 0.25
"""Above this share of differing rows the row order was not kept, and hashing is cheaper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """Rows with weights: what a map task hands on.

    Attributes:
        batch: the table's columns.
        row_hashes: of each row.
        change_ordinals: int32, of each row.
        weights: int64, of each row.
    """

    batch: pa.RecordBatch
    row_hashes: RowHashes
    change_ordinals: NDArray[np.int32]
    weights: NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class ReadTally:
    """What a map task read, and the signed rows per ordinal before anything cancelled.

    Attributes:
        rows_read: each file once.
        removed_rows: rows of negative weight, a file once for every step it is removed in.
        added_rows: rows of positive weight, likewise.
    """

    rows_read: int = 0
    removed_rows: int = 0
    added_rows: int = 0
    bytes_read: int = 0
    signed_rows: dict[int, int] = field(default_factory=dict)

    def add_file(self, work: FileWork, rows: int) -> None:
        """Counts one file of ``rows`` rows."""
        self.rows_read += rows
        self.bytes_read += work.data_file.file_size_bytes
        for ordinal, weight in work.weights:
            self.signed_rows[ordinal] = self.signed_rows.get(ordinal, 0) + weight * rows
            if weight < 0:
                self.removed_rows += rows
            else:
                self.added_rows += rows

    def require(self, counts: Mapping[int, int], *, what: str) -> None:
        """Cancelling keeps the signed count: what was read must equal what is handed on.

        Raises:
            AuditError: it does not.
        """
        for ordinal, expected in self.signed_rows.items():
            if counts.get(ordinal, 0) != expected:
                raise AuditError(
                    f"{what} read {expected} rows net in change ordinal {ordinal} and hands on "
                    f"{counts.get(ordinal, 0)}; nothing was delivered, report this as a bug",
                    change_ordinal=ordinal,
                )


class RowReader(Protocol):
    """Reads the rows of data files in the schema of the batch."""

    def read_file(self, work: FileWork) -> Iterator[tuple[int, pa.RecordBatch]]:
        """All rows in order, as (position of the batch's first row, batch)."""
        ...

    def read_rows(self, work: FileWork, positions: Positions) -> Iterator[pa.RecordBatch]:
        """The rows at ascending positions."""
        ...

    def plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of `read_file` without dictionaries."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidates:
    """Rows of one file that may not cancel, hashed.

    Attributes:
        batches: the rows, where memory allowed to keep them; None: they are all rows of the file, to be read again.
    """

    work: FileWork
    hashes: RowHashes
    batches: Sequence[pa.RecordBatch] | None

    def weight_in(self, ordinal: int) -> int:
        return dict(self.work.weights).get(ordinal, 0)


class CarryOver:
    """Consolidates the rows of a group of files, per ordinal.

    A file removed and a file added of equal length are first compared position by position: where a writer kept the row
    order, that cancels nearly every row without a hash. What differs there, and every row of the other files that meet
    rows of the other sign, is hashed and consolidated; what survives is taken from memory or read again by position.
    Files that meet nothing of the other sign are passed on.

    Args:
        files: the group.
        reader: how to read them.
        memory_bytes: Arrow bytes that may be kept between reading and handing on.
    """

    def __init__(self, files: Sequence[FileWork], reader: RowReader, *, memory_bytes: int) -> None:
        self._files = files
        self._reader = reader
        self._free_bytes = memory_bytes
        self.tally = ReadTally()

    def changed_rows(self) -> Iterator[ChangedRows]:
        """The rows whose weights do not cancel, file by file."""
        contended = _two_signed(self._files)
        waiting = []
        for work in self._files:
            if any(ordinal in contended for ordinal, _ in work.weights):
                waiting.append(work)
            else:
                yield from self._every_row(work)
        candidates = self._candidates(waiting)
        survivors = _survivors(candidates, contended)
        while candidates:
            yield from self._rows_of(candidates.pop(0), survivors.pop(0))

    def _every_row(self, work: FileWork) -> Iterator[ChangedRows]:
        rows = 0
        effects = [(ordinal, weight, None) for ordinal, weight in work.weights]
        for _, batch in self._reader.read_file(work):
            rows += batch.num_rows
            yield _weigh(self._reader.plain(batch), row_hashes_of_batch(batch), np.arange(batch.num_rows), effects)
        self.tally.add_file(work, rows)

    def _candidates(self, files: Sequence[FileWork]) -> list[_Candidates]:
        found: list[_Candidates] = []
        for removed, added in _alignable(files):
            aligned = self._align(removed, added)
            if aligned is not None:
                found.extend(aligned)
                for work in (removed, added):
                    self.tally.add_file(work, work.data_file.record_count)
        done = {id(each.work) for each in found}
        return [*found, *(self._hash(work) for work in files if id(work) not in done)]

    def _align(self, removed: FileWork, added: FileWork) -> tuple[_Candidates, _Candidates] | None:
        """The rows of two files that differ by position; None where the row order was not kept, or memory is short."""
        sides = [(batch for _, batch in self._reader.read_file(work)) for work in (removed, added)]
        kept: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        rows_seen = rows_kept = kept_bytes = 0
        for pair in aligned_batches(*sides):
            differing = differing_rows(*pair)
            rows_seen += pair[0].num_rows
            rows_kept += len(differing)
            if rows_kept > _ALIGNED_SHARE * rows_seen:
                return None
            for batch, side in zip(pair, kept, strict=True):
                side.append(self._reader.plain(batch.take(pa.array(differing))))
                kept_bytes += side[-1].nbytes
            if kept_bytes > self._free_bytes:
                return None
        self._free_bytes -= kept_bytes
        hashes = [RowHashes.concat([row_hashes_of_batch(batch) for batch in side]) for side in kept]
        return (
            _Candidates(work=removed, hashes=hashes[0], batches=kept[0]),
            _Candidates(work=added, hashes=hashes[1], batches=kept[1]),
        )

    def _hash(self, work: FileWork) -> _Candidates:
        hashes: list[RowHashes] = []
        kept: list[pa.RecordBatch] | None = []
        kept_bytes = 0
        for _, batch in self._reader.read_file(work):
            hashes.append(row_hashes_of_batch(batch))
            if kept is not None:
                kept.append(batch)
                kept_bytes += batch.nbytes
                if kept_bytes > self._free_bytes:
                    kept = None
        if kept is not None:
            self._free_bytes -= kept_bytes
        whole = RowHashes.concat(hashes)
        self.tally.add_file(work, len(whole))
        return _Candidates(work=work, hashes=whole, batches=kept)

    def _rows_of(self, file: _Candidates, effects: Sequence[_Effect]) -> Iterator[ChangedRows]:
        """Hands on the rows of one file that survived in any ordinal."""
        wanted = _union([positions for _, _, positions in effects], len(file.hashes))
        start = 0
        for batch in self._rows_at(file, wanted):
            here = wanted[start : start + batch.num_rows]
            start += batch.num_rows
            yield _weigh(batch, file.hashes.take(here), here, effects)

    def _rows_at(self, file: _Candidates, wanted: Positions) -> Iterator[pa.RecordBatch]:
        if not len(wanted):
            return
        if file.batches is None:
            yield from self._reader.read_rows(file.work, wanted)
            return
        stops = np.cumsum([batch.num_rows for batch in file.batches])
        bounds = np.searchsorted(wanted, np.concatenate([[0], stops]))
        for batch, stop, (first, last) in zip(file.batches, stops, pairwise(bounds), strict=True):
            if last > first:
                yield self._reader.plain(batch.take(pa.array(wanted[first:last] - (stop - batch.num_rows))))


def _two_signed(files: Sequence[FileWork]) -> frozenset[int]:
    """The ordinals in which rows of these files can cancel."""
    signs = {(ordinal, weight > 0) for work in files for ordinal, weight in work.weights}
    return frozenset(ordinal for ordinal, _ in signs if {(ordinal, True), (ordinal, False)} <= signs)


def _alignable(files: Sequence[FileWork]) -> Iterator[tuple[FileWork, FileWork]]:
    """Files removed and added by one and the same step that have equally many rows."""
    waiting: dict[tuple[int, int], list[FileWork]] = {}
    for work in files:
        if len(work.weights) == 1 and work.weights[0][1] < 0:
            waiting.setdefault((work.weights[0][0], work.data_file.record_count), []).append(work)
    for work in files:
        if len(work.weights) == 1 and work.weights[0][1] > 0:
            removed = waiting.get((work.weights[0][0], work.data_file.record_count))
            if removed:
                yield removed.pop(0), work


def _survivors(candidates: Sequence[_Candidates], contended: frozenset[int]) -> list[list[_Effect]]:
    """For each file its effects: in contended ordinals on the rows that survive, in others on every row."""
    effects: list[list[_Effect]] = [
        [(ordinal, weight, None) for ordinal, weight in file.work.weights if ordinal not in contended]
        for file in candidates
    ]
    for ordinal in sorted(contended):
        removed = [index for index, file in enumerate(candidates) if file.weight_in(ordinal) < 0]
        added = [index for index, file in enumerate(candidates) if file.weight_in(ordinal) > 0]
        kept = surviving_rows(
            *(RowHashes.concat([candidates[index].hashes for index in side]) for side in (removed, added))
        )
        for side, weight, positions in zip((removed, added), (-1, 1), kept, strict=True):
            stops = np.cumsum([0, *(len(candidates[index].hashes) for index in side)])
            for index, start, (first, last) in zip(
                side, stops, pairwise(np.searchsorted(positions, stops)), strict=False
            ):
                effects[index].append((ordinal, weight, positions[first:last] - start))
    return effects


def _union(positions: Sequence[Positions | None], num_rows: int) -> Positions:
    """Every position that any effect needs, ascending; None stands for all of them."""
    given = [each for each in positions if each is not None]
    if len(given) < len(positions):
        return np.arange(num_rows)
    return np.unique(np.concatenate(given)) if len(given) != 1 else given[0]


def _weigh(batch: pa.RecordBatch, hashes: RowHashes, positions: Positions, effects: Sequence[_Effect]) -> ChangedRows:
    """The rows of a batch once for every effect that they have.

    Args:
        batch: rows at ``positions`` of their file, ascending.
        hashes: of the rows.
        positions: of the rows.
        effects: of the file.
    """
    picks, ordinals, weights = [], [], []
    for ordinal, weight, survivors in effects:
        pick = np.arange(len(positions)) if survivors is None else np.flatnonzero(np.isin(positions, survivors))
        picks.append(pick)
        ordinals.append(np.full(len(pick), ordinal, np.int32))
        weights.append(np.full(len(pick), weight, np.int64))
    rows = np.concatenate(picks)
    if len(effects) == 1 and len(rows) == batch.num_rows:
        return ChangedRows(batch=batch, row_hashes=hashes, change_ordinals=ordinals[0], weights=weights[0])
    return ChangedRows(
        batch=batch.take(pa.array(rows)),
        row_hashes=hashes.take(rows),
        change_ordinals=np.concatenate(ordinals),
        weights=np.concatenate(weights),
    )
