"""Carry-over, cancelled before the shuffle: the rows of a group of files that really changed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.audit.sums import AuditError
from icefloe.batch.document import FileWork
from icefloe.changes.consolidate import surviving_rows
from icefloe.changes.row_hash import RowHashes, row_hashes_of_batch

__all__ = ["CarryOver", "ChangedRows", "ReadTally", "RowReader"]

Positions = NDArray[np.int64]
_Effect = tuple[int, int, Positions | None]
"""(change_ordinal, weight, positions of the rows that have it, ascending; None: all rows)."""


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
class _HashedFile:
    """A file whose rows were hashed; ``batches`` are its rows where memory allowed to keep them, else None."""

    work: FileWork
    hashes: RowHashes
    batches: Sequence[pa.RecordBatch] | None

    def weight_in(self, ordinal: int) -> int:
        return dict(self.work.weights).get(ordinal, 0)


class CarryOver:
    """Consolidates the rows of a group of files by their row hashes, per ordinal.

    Digests first: a file that meets rows of the other sign in one of its ordinals is hashed once; what survives is
    taken from memory where its batches still fit, else read again by position. Other files are passed on as read.

    Args:
        files: the group.
        reader: how to read them.
        memory_bytes: Arrow bytes that may be kept between hashing and handing on.
    """

    def __init__(self, files: Sequence[FileWork], reader: RowReader, *, memory_bytes: int) -> None:
        self._files = files
        self._reader = reader
        self._free_bytes = memory_bytes
        self.tally = ReadTally()

    def changed_rows(self) -> Iterator[ChangedRows]:
        """The rows whose weights do not cancel, file by file."""
        contended = _two_signed(self._files)
        meets = [any(ordinal in contended for ordinal, _ in work.weights) for work in self._files]
        for work, contests in zip(self._files, meets, strict=True):
            if not contests:
                yield from self._every_row(work)
        hashed = [self._hash(work) for work, contests in zip(self._files, meets, strict=True) if contests]
        survivors = _survivors(hashed, contended)
        while hashed:
            yield from self._rows_of(hashed.pop(0), survivors.pop(0))

    def _every_row(self, work: FileWork) -> Iterator[ChangedRows]:
        rows = 0
        effects = [(ordinal, weight, None) for ordinal, weight in work.weights]
        for _, batch in self._reader.read_file(work):
            rows += batch.num_rows
            yield _weigh(self._reader.plain(batch), row_hashes_of_batch(batch), np.arange(batch.num_rows), effects)
        self.tally.add_file(work, rows)

    def _hash(self, work: FileWork) -> _HashedFile:
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
        return _HashedFile(work=work, hashes=whole, batches=kept)

    def _rows_of(self, file: _HashedFile, effects: Sequence[_Effect]) -> Iterator[ChangedRows]:
        """Hands on the rows of one file that survived in any ordinal."""
        wanted = _union([positions for _, _, positions in effects], len(file.hashes))
        start = 0
        for batch in self._rows_at(file, wanted):
            here = wanted[start : start + batch.num_rows]
            start += batch.num_rows
            yield _weigh(batch, file.hashes.take(here), here, effects)

    def _rows_at(self, file: _HashedFile, wanted: Positions) -> Iterator[pa.RecordBatch]:
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


def _survivors(hashed: Sequence[_HashedFile], contended: frozenset[int]) -> list[list[_Effect]]:
    """For each file its effects: in contended ordinals on the rows that survive, in others on every row."""
    effects: list[list[_Effect]] = [
        [(ordinal, weight, None) for ordinal, weight in file.work.weights if ordinal not in contended]
        for file in hashed
    ]
    for ordinal in sorted(contended):
        removed = [index for index, file in enumerate(hashed) if file.weight_in(ordinal) < 0]
        added = [index for index, file in enumerate(hashed) if file.weight_in(ordinal) > 0]
        kept = surviving_rows(
            *(RowHashes.concat([hashed[index].hashes for index in side]) for side in (removed, added))
        )
        for side, weight, positions in zip((removed, added), (-1, 1), kept, strict=True):
            stops = np.cumsum([0, *(len(hashed[index].hashes) for index in side)])
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
