"""Pairs of files of which one probably is a rewrite of the other, and the rows that differ between them.

Each file is read once, whatever its rows turn out to be.
"""

from collections.abc import Collection, Iterator, Sequence
from math import inf
from typing import Self

from icefloe.batch.fast_ways import FastWay
from icefloe.batch.map.file_window import FileWindow
from icefloe.batch.map.hashed_rows import BYTES_PER_HASHED_ROW, HashedRows, MemoryBudget
from icefloe.batch.map.ordered_rows import cancel_in_order
from icefloe.batch.map.read_tally import FileTally
from icefloe.batch.rows.file_effects import FileEffects
from icefloe.batch.rows.row_reader import TableRowReader


def alignable_pairs(files: Sequence[FileEffects]) -> Iterator[tuple[FileEffects, FileEffects]]:
    """Pairs of a removed and an added file of one step with equal row counts, both whole; each in one pair at most."""
    removed: dict[tuple[int, int], list[FileEffects]] = {}
    for file in files:
        if is_whole(file, -1):
            removed.setdefault(_likeness(file), []).append(file)
    for file in files:
        if is_whole(file, 1):
            like = removed.get(_likeness(file))
            if like:
                yield like.pop(0), file


def is_whole(file: FileEffects, weight: int) -> bool:
    """True if one step, and no other, touches all rows of a file with a weight."""
    return len(file.effects) == 1 and file.effects[0].rows.is_all and file.effects[0].weight == weight


def _likeness(file: FileEffects) -> tuple[int, int]:
    return file.effects[0].change_ordinal, file.data_file.record_count


def rewritten_pairs(files: Sequence[FileEffects]) -> Iterator[tuple[FileEffects, FileEffects]]:
    """Alignable pairs, then pairs of the other whole files of a step if it removed as many of them as it added."""
    paired: set[tuple[str, int | None]] = set()
    for pair in alignable_pairs(files):
        paired.update(file.key for file in pair)
        yield pair
    by_ordinal: dict[int, tuple[list[FileEffects], list[FileEffects]]] = {}
    for file in files:
        for side, weight in enumerate((-1, 1)):
            if is_whole(file, weight) and file.key not in paired:
                by_ordinal.setdefault(file.effects[0].change_ordinal, ([], []))[side].append(file)
    for removed, added in by_ordinal.values():
        # The plan has files in the order of their bounds, so the first removed file became the first added file.
        if len(removed) == len(added):
            yield from zip(removed, added, strict=True)


def compare_rewritten(
    files: Sequence[FileEffects], reader: TableRowReader, *, ways: Collection[FastWay], budget: MemoryBudget
) -> Iterator[tuple[FastWay | None, HashedRows, HashedRows]]:
    """The rows that are left of pairs of files if rows cancel that are equal and in the same order.

    Args:
        files: files of a map task.
        reader: reads the files.
        ways: ways that may be taken.
        budget: memory for hashes and for the rows that are left.

    Yields:
        The way that cancelled rows of a pair, and the hashed rows of each file. If no way fits, the way is None and all
        rows are left. If memory is too short for all their hashes, such a pair is left out.
    """
    pairs = [pair for pair in rewritten_pairs(files) if ways]
    memory = _Ample.of(pairs, budget) or _Scarce(budget)
    lost_pairs = 0
    for pair in pairs:
        if lost_pairs >= memory.most_lost_pairs:
            return
        rows = _rows_of(pair)
        most_rows = memory.most_left_rows(rows)
        sides = [FileWindow(FileTally(file), reader, budget, most_left_rows=most_rows) for file in pair]
        way = cancel_in_order(*sides, ways=ways)
        lefts = [side.remaining for side in sides]
        if (way is not None or memory.holds_unlike) and all(side.leave_rest() for side in sides):
            memory.keep(sum(left.num_rows for left in lefts), of=rows)
            first, second = (left.hashed_rows() for left in lefts)
            yield way, first, second
        else:
            lost_pairs += 1
            for left in lefts:
                left.forget()


class _Ample:
    """Memory for the hashes of all pairs: the rows of two unlike files are hashed at once, and no file is read twice.

    Attributes:
        most_lost_pairs: number of pairs that may be read in vain before the others are not tried.
        holds_unlike: True if the rows of two files that no way fits are kept.
    """

    most_lost_pairs: float = inf
    holds_unlike = True

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget

    @classmethod
    def of(cls, pairs: Sequence[tuple[FileEffects, FileEffects]], budget: MemoryBudget) -> Self | None:
        """Takes the memory, at most half of what is free; None if that is too little."""
        needed_bytes = sum(map(_rows_of, pairs)) * BYTES_PER_HASHED_ROW
        if 2 * needed_bytes > budget.free_bytes:
            return None
        budget.take(needed_bytes)
        return cls(budget)

    def most_left_rows(self, rows: int) -> int:
        """The most rows that may be left of a pair of so many."""
        return rows

    def keep(self, left_rows: int, *, of: int) -> None:
        """Counts the hashes of the rows that are left of a pair."""
        self._budget.give_back((of - left_rows) * BYTES_PER_HASHED_ROW)


class _Scarce:
    """The hashes of all pairs would take more than half of the free memory; see `_Ample`.

    Unlike files are left out, because they are read for each slice of the hashes anyway.
    """

    most_lost_pairs: float = 2
    """After so many pairs that had to be read in vain, the others are probably like them."""
    holds_unlike = False

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget

    def most_left_rows(self, _rows: int) -> int:
        """As many as there is memory for."""
        return self._budget.free_bytes // BYTES_PER_HASHED_ROW

    def keep(self, left_rows: int, *, of: int) -> None:  # noqa: ARG002 - none of the others was taken
        """See `_Ample`."""
        self._budget.take(min(self._budget.free_bytes, left_rows * BYTES_PER_HASHED_ROW))


def _rows_of(pair: tuple[FileEffects, FileEffects]) -> int:
    return sum(file.data_file.record_count for file in pair)
