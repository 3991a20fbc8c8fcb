"""Pairs of files of which one probably rewrites the other, and the rows that differ."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

import numpy as np
import pyarrow as pa

from icefloe.batch.map.hashed_rows import BYTES_PER_HASHED_ROW, FileTally, HashedRows, MemoryBudget, RemainingRows
from icefloe.batch.rows.file_effects import FileEffects, Positions
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.changes.alignment import aligned_batches, differing_rows, digests_of, pairs_in_order, telling_columns
from icefloe.changes.row_hash.row_hashes import RowHashes

LEAST_UPDATED_ROWS = 50_000
"""With fewer rows in both files, decoding them takes less time than opening them once more on an object store."""
_SAMPLE_ROWS: Final = 2_048
_TELLING_ROWS: Final = 1_024
LEAST_MATCHED_ROWS = 16_384
"""With fewer rows in both files, hashing takes less time than looking for partners."""
_PROBE_ROWS: Final = 64
_MOST_DIFFERING: Final = 0.25
"""If a greater share of rows differs from its partners, hashing is cheaper."""
_LEAST_PAIRED: Final = 0.3
"""If a smaller share has partners, hashing is cheaper. If every second row is gone, half of a sample has partners."""
_MOST_LOST_PAIRS: Final = 2
"""After so many pairs that had to be read in vain, the others are probably like them."""


class FastWay(StrEnum):
    """One way to find carried-over rows of two files without hashing every row. All give the same changes."""

    IDENTICAL = "identical"  # decodes only the columns whose bytes differ in two files with equal row groups
    ALIGNED = "aligned"  # compares rows at equal positions: nearly all cancel if the writer kept the order
    MATCHED = "matched"  # compares likely pairs in the same order, told apart by a few columns, if rows are gone or new


class FileWindow:
    """A file read in order."""

    def __init__(self, tally: FileTally, reader: TableRowReader, budget: MemoryBudget, *, most_left_rows: int) -> None:
        self.remaining = RemainingRows(tally, reader, budget)  # without an equal row, until now
        self.window: pa.RecordBatch = pa.record_batch({})  # read and not done; begins with the file's next row
        self._batch_rows = 0
        self._batches = reader.read(tally.file)
        self._tally = tally
        self.rows_done = 0
        self._most_left_rows = most_left_rows

    @property
    def rows_ahead(self) -> int:
        """Rows that are not done."""
        return self._tally.file.data_file.record_count - self.rows_done

    @property
    def has_too_many(self) -> bool:
        """True if more rows are left than may be."""
        return self.remaining.num_rows > self._most_left_rows

    def fill(self) -> bool:
        """Reads on if the window is empty; False at the end of the file."""
        while not self.window.num_rows:
            rows = next(self._batches, None)
            if rows is None:
                return False
            self._tally.add(rows)
            self.window, self._batch_rows = rows.batch, rows.batch.num_rows
        return True

    def head(self, num_rows: int) -> pa.RecordBatch:
        """First rows of the window."""
        return self.window.slice(0, num_rows)

    def finish(self, num_rows: int, unequal: Positions | None = None) -> None:
        """Drops the first rows, which are done."""
        if unequal is None and num_rows < self._batch_rows / 2:
            unequal = np.arange(num_rows)  # copied: a slice would keep the whole batch in memory
        if unequal is None or len(unequal):
            self.remaining.add(self.head(num_rows), np.arange(self.rows_done, self.rows_done + num_rows), unequal)
        self.rows_done += num_rows
        self.window = self.window.slice(num_rows)

    def leave_rest(self) -> bool:
        """Leaves all rows to the end; False if they are too many."""
        while not self.has_too_many:
            if not self.fill():
                return True
            self.finish(self.window.num_rows)
        return False


def cancel_in_order(removed: FileWindow, added: FileWindow, *, ways: Collection[FastWay]) -> FastWay | None:
    """Cancels equal rows until a file ends, the order is lost, or too many rows are left."""
    taken: FastWay | None = None
    may_match = FastWay.MATCHED in ways and removed.rows_ahead + added.rows_ahead >= LEAST_MATCHED_ROWS
    telling: list[int] | None = None if may_match else []
    while removed.fill() and added.fill() and not (removed.has_too_many or added.has_too_many):
        if FastWay.ALIGNED in ways and _cancel_aligned(removed, added):
            taken = FastWay.ALIGNED
            continue
        if telling is None:
            telling = telling_columns(removed.head(_TELLING_ROWS))
        if telling and _cancel_matched(removed, added, telling):
            taken = FastWay.MATCHED
        elif telling and _skip(removed, added, telling):
            continue
        elif 2 * (removed.remaining.num_rows + added.remaining.num_rows) < removed.rows_done + added.rows_done:
            # Most rows were cancelled until here, so these may be many changes in one place.
            rows = min(removed.window.num_rows, added.window.num_rows)
            removed.finish(rows)
            added.finish(rows)
        else:
            break
    return taken


def _cancel_aligned(removed: FileWindow, added: FileWindow) -> bool:
    """Cancels equal rows at equal places of the windows; False if few are equal."""
    rows = min(removed.window.num_rows, added.window.num_rows)
    # The last rows, because the rows after the first gap differ.
    sample = max(rows - _SAMPLE_ROWS // 2, 0)
    last = (side.window.slice(sample, rows - sample) for side in (removed, added))
    if len(differing_rows(*last)) > _MOST_DIFFERING * (rows - sample):
        return False
    unequal = differing_rows(removed.head(rows), added.head(rows))
    removed.finish(rows, unequal)
    added.finish(rows, unequal)
    return True


def _cancel_matched(removed: FileWindow, added: FileWindow, telling: list[int]) -> bool:
    """The same for rows in the same order."""
    # removed   a b c d e      b was deleted, x inserted:  a c d e
    # added     a c d x e      side by side                a c d e
    heads = removed.head(_SAMPLE_ROWS), added.head(_SAMPLE_ROWS)
    if _partners(*heads, telling) is None:
        return False
    # The last rows of a batch often are a short window. A long one next to it would be searched in vain.
    longest = 2 * min(side.window.num_rows for side in (removed, added)) + _SAMPLE_ROWS
    heads = removed.head(longest), added.head(longest)
    found = _partners(*heads, telling)
    if found is None:
        return False
    for side, partners in zip((removed, added), found, strict=True):
        rows, equal = partners
        is_left = np.ones(rows, np.bool_)
        is_left[equal] = False
        side.finish(rows, np.flatnonzero(is_left))
    # If both windows have rows left, their partners are not among them. Partners of both cannot be further on,
    # since these would cross. The shorter rest is likely to have none.
    rests = removed.window.num_rows, added.window.num_rows
    shorter = removed if rests[0] < rests[1] else added
    shorter.finish(shorter.window.num_rows)
    return True


def _partners(
    one: pa.RecordBatch, other: pa.RecordBatch, telling: list[int]
) -> tuple[tuple[int, Positions], tuple[int, Positions]] | None:
    """Of each batch the rows up to the last partner, and the places of rows with equal partners."""
    of_one, of_other = pairs_in_order(
        *(digests_of([batch.column(place) for place in telling]) for batch in (one, other))
    )
    if len(of_one) < _LEAST_PAIRED * min(one.num_rows, other.num_rows):
        return None
    differing = differing_rows(_picked(one, of_one), _picked(other, of_other))
    if len(differing) > _MOST_DIFFERING * len(of_one):
        return None
    return (
        (int(of_one[-1]) + 1, np.delete(of_one, differing)),
        (int(of_other[-1]) + 1, np.delete(of_other, differing)),
    )


def _picked(batch: pa.RecordBatch, places: Positions) -> pa.RecordBatch:
    if len(places) == places[-1] + 1:
        return batch.slice(0, len(places))
    return batch.take(pa.array(places))


def _skip(removed: FileWindow, added: FileWindow, telling: list[int]) -> bool:
    """Leaves rows that are gone or new, up to where the rows are the same; False if that is not found."""
    longer, shorter = (removed, added) if removed.rows_ahead > added.rows_ahead else (added, removed)
    surplus = longer.rows_ahead - shorter.rows_ahead
    if surplus < _SAMPLE_ROWS // 2:
        return False
    searched, probe = longer.window, shorter.head(_PROBE_ROWS)
    places, _ = pairs_in_order(*(digests_of([batch.column(place) for place in telling]) for batch in (searched, probe)))
    if len(places) >= _LEAST_PAIRED * probe.num_rows and places[0]:
        longer.finish(int(places[0]))
        return True
    if surplus < searched.num_rows or len(places):
        return False
    longer.finish(searched.num_rows)
    return True


def alignable_pairs(files: Sequence[FileEffects]) -> Iterator[tuple[FileEffects, FileEffects]]:
    """Pairs of a removed and an added file of one step, both whole, with equal row counts; each in one pair at most."""
    for removed, added in _whole_files(files, by_rows=True):
        yield from zip(removed, added, strict=False)


def rewritten_pairs(files: Sequence[FileEffects]) -> Iterator[tuple[FileEffects, FileEffects]]:
    """Alignable pairs, then pairs of the other whole files of a step if it removed as many as it added."""
    alignable = [*alignable_pairs(files)]
    yield from alignable
    paired = {file.key for pair in alignable for file in pair}
    for removed, added in _whole_files((file for file in files if file.key not in paired), by_rows=False):
        # The plan has files in the order of their bounds, so the first removed file became the first added file.
        if len(removed) == len(added):
            yield from zip(removed, added, strict=True)


def _whole_files(
    files: Iterable[FileEffects], *, by_rows: bool
) -> Iterable[tuple[list[FileEffects], list[FileEffects]]]:
    """Removed and added files of each step, and of each row count if asked; no other step touches a row of them."""
    found: dict[tuple[int, int | None], tuple[list[FileEffects], list[FileEffects]]] = {}
    for file in files:
        if len(file.effects) != 1 or not file.effects[0].rows.is_all:
            continue
        effect, rows = file.effects[0], file.data_file.record_count if by_rows else None
        if effect.weight in (-1, 1):
            found.setdefault((effect.change_ordinal, rows), ([], []))[effect.weight > 0].append(file)
    return found.values()


def compare_rewritten(
    files: Sequence[FileEffects], reader: TableRowReader, *, ways: Collection[FastWay], budget: MemoryBudget
) -> Iterator[tuple[FastWay | None, HashedRows, HashedRows]]:
    """The rows that are left of pairs if equal rows in the same order cancel."""
    pairs = [*rewritten_pairs(files)]
    # If half of the memory holds the hashes of all pairs, no file is read twice. If memory is scarce, unlike files are
    # left out, as they are read for each slice of the hashes anyway.
    needed_bytes = sum(map(_rows_of, pairs)) * BYTES_PER_HASHED_ROW
    is_ample = 2 * needed_bytes <= budget.free_bytes
    if is_ample:
        budget.take(needed_bytes)
    lost_pairs = 0
    for pair in pairs:
        if lost_pairs >= _MOST_LOST_PAIRS and not is_ample:
            return
        rows = _rows_of(pair)
        most_rows = rows if is_ample else budget.free_bytes // BYTES_PER_HASHED_ROW
        sides = [FileWindow(FileTally(file), reader, budget, most_left_rows=most_rows) for file in pair]
        way = cancel_in_order(*sides, ways=ways)
        lefts = [side.remaining for side in sides]
        if (way is not None or is_ample) and all(side.leave_rest() for side in sides):
            left_bytes = sum(left.num_rows for left in lefts) * BYTES_PER_HASHED_ROW
            if is_ample:
                budget.give_back(rows * BYTES_PER_HASHED_ROW - left_bytes)
            else:
                budget.take(min(budget.free_bytes, left_bytes))
            first, second = (left.hashed_rows() for left in lefts)
            yield way, first, second
        else:
            lost_pairs += 1
            for left in lefts:
                left.forget()


def _rows_of(pair: tuple[FileEffects, FileEffects]) -> int:
    return sum(file.data_file.record_count for file in pair)


def compare_updated(
    removed: FileEffects, added: FileEffects, reader: TableRowReader, *, budget: MemoryBudget
) -> tuple[HashedRows, HashedRows] | None:
    """The rows of two files that differ by position, kept in memory."""
    num_rows = removed.data_file.record_count
    if 2 * num_rows < LEAST_UPDATED_ROWS:
        return None
    identical = reader.columns_of_equal_bytes(removed.data_file, added.data_file)
    if not identical:
        return None
    sides = _Side(removed, reader), _Side(added, reader)
    names = reader.shape.read.arrow.names
    differing = [name for name in names if name not in identical]
    if not differing:
        # The footers were checked against the planned number of rows.
        for side in sides:
            side.tally.add_all(num_rows)
        return sides[0].hashed_rows([]), sides[1].hashed_rows([])
    positions = _differing_positions(*sides, differing, budget.free_bytes)
    if positions is None:
        return None
    left_bytes = sum(side.kept_bytes for side in sides)
    unchanged = []
    for batch in reader.read_columns_at(added.data_file, [name for name in names if name in identical], positions):
        unchanged.append(batch)
        left_bytes += batch.nbytes
        if left_bytes > budget.free_bytes:
            return None
    budget.take(left_bytes)
    first, second = (side.hashed_rows(unchanged) for side in sides)
    return first, second


def _differing_positions(removed: "_Side", added: "_Side", names: Sequence[str], free_bytes: int) -> Positions | None:
    """None if memory is short. Each side keeps its columns of the rows that differ."""
    found: list[Positions] = [np.zeros(0, np.int64)]
    start = 0
    for one, other in aligned_batches(removed.read(names), added.read(names)):
        rows = differing_rows(one, other)
        found.append(start + rows)
        start += one.num_rows
        if len(rows):
            removed.keep(one, rows)
            added.keep(other, rows)
        if removed.kept_bytes + added.kept_bytes > free_bytes:
            return None
    return np.concatenate(found)


class _Side:
    """One of the files, with the differing columns of the rows that differ."""

    def __init__(self, file: FileEffects, reader: TableRowReader) -> None:
        self.tally = FileTally(file)
        self.kept: list[pa.RecordBatch] = []
        self.kept_bytes = 0
        self._reader = reader

    def read(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self._reader.read_columns(self.tally.file.data_file, names):
            self.tally.add_all(batch.num_rows)
            yield batch

    def keep(self, batch: pa.RecordBatch, rows: Positions) -> None:
        taken = batch.take(pa.array(rows))
        plain = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in taken]
        self.kept.append(pa.RecordBatch.from_arrays(plain, names=batch.schema.names))
        self.kept_bytes += self.kept[-1].nbytes

    def hashed_rows(self, unchanged: Sequence[pa.RecordBatch]) -> HashedRows:
        file = self.tally.file
        kept = [self._reader.joined(file.data_file, *parts) for parts in aligned_batches(self.kept, unchanged)]
        hashes = RowHashes.concat([RowHashes.of_batch(batch, key=self._reader.shape.hash_key) for batch in kept])
        return HashedRows(tally=self.tally, effects=file.effects, hashes=hashes, kept=kept)
