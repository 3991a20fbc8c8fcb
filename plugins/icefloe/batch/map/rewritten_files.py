"""Pairs of files of which one probably is a rewrite of the other, and the rows that differ between them.

Each file is read once, whatever its rows turn out to be.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from icefloe.batch.fast_ways import FastWay
from icefloe.batch.map.file_window import FileWindow
from icefloe.batch.map.hashed_rows import BYTES_PER_HASHED_ROW, HashedRows, MemoryBudget
from icefloe.batch.map.ordered_rows import cancel_in_order
from icefloe.batch.map.read_tally import FileTally
from icefloe.batch.rows.file_effects import FileRows
from icefloe.batch.rows.row_reader import TableRowReader

_MOST_LOST_PAIRS: Final = 2
"""After so many pairs that had to be read in vain, the others are probably like them."""


def alignable_pairs(files: Sequence[FileRows]) -> Iterator[tuple[FileRows, FileRows]]:
    """Pairs of a removed and an added file of one step with equal row counts, both whole; each in one pair at most."""
    removed: dict[tuple[int, int], list[FileRows]] = {}
    for file in files:
        if is_whole(file, -1):
            removed.setdefault(_likeness(file), []).append(file)
    for file in files:
        if is_whole(file, 1):
            like = removed.get(_likeness(file))
            if like:
                yield like.pop(0), file


def is_whole(file: FileRows, weight: int) -> bool:
    """True if one step, and no other, touches all rows of a file with a weight."""
    return len(file.effects) == 1 and file.effects[0].rows.is_all and file.effects[0].weight == weight


def _likeness(file: FileRows) -> tuple[int, int]:
    return file.effects[0].change_ordinal, file.data_file.record_count


def rewritten_pairs(files: Sequence[FileRows]) -> Iterator[tuple[FileRows, FileRows]]:
    """Alignable pairs, then pairs of the other whole files of a step if it removed as many of them as it added."""
    paired: set[tuple[str, int | None]] = set()
    for pair in alignable_pairs(files):
        paired.update(file.key for file in pair)
        yield pair
    by_ordinal: dict[int, tuple[list[FileRows], list[FileRows]]] = {}
    for file in files:
        for side, weight in enumerate((-1, 1)):
            if is_whole(file, weight) and file.key not in paired:
                by_ordinal.setdefault(file.effects[0].change_ordinal, ([], []))[side].append(file)
    for removed, added in by_ordinal.values():
        # The plan has files in the order of their bounds, so the first removed file became the first added file.
        if len(removed) == len(added):
            yield from zip(removed, added, strict=True)


def compare_rewritten(
    files: Sequence[FileRows], reader: TableRowReader, *, ways: Collection[FastWay], budget: MemoryBudget
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
    rows = sum(file.data_file.record_count for pair in pairs for file in pair)
    # With memory for all hashes, the rows of a pair that no way fits are hashed at once, and no file is read twice.
    # Without, such files are read for each slice of the hashes anyway.
    is_ample = 2 * rows * BYTES_PER_HASHED_ROW <= budget.free_bytes
    if is_ample:
        budget.take(rows * BYTES_PER_HASHED_ROW)
    lost_pairs = 0
    for pair in pairs:
        if not is_ample and lost_pairs >= _MOST_LOST_PAIRS:
            return
        pair_rows = sum(file.data_file.record_count for file in pair)
        most_rows = pair_rows if is_ample else budget.free_bytes // BYTES_PER_HASHED_ROW
        sides = [FileWindow(FileTally(file), reader, budget, most_left_rows=most_rows) for file in pair]
        way = cancel_in_order(*sides, ways=ways)
        lefts = [side.remaining for side in sides]
        if (is_ample or way is not None) and all(side.leave_rest() for side in sides):
            left_rows = sum(left.num_rows for left in lefts)
            if is_ample:
                budget.give_back((pair_rows - left_rows) * BYTES_PER_HASHED_ROW)
            else:
                budget.take(min(budget.free_bytes, left_rows * BYTES_PER_HASHED_ROW))
            first, second = (left.hashed_rows() for left in lefts)
            yield way, first, second
        else:
            lost_pairs += 1
            for left in lefts:
                left.forget()
