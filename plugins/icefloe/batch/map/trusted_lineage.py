"""Files whose row lineage is trusted (V3): two columns of all rows are decoded, and whole rows only where these differ.

No values are compared, so a writer that changes a row must say so by a new sequence number, as the specification asks.
Rows with new row ids are not lost: they are left on both sides, hashed, and cancel if they are equal.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from icefloe.batch.map.hashed_rows import HashedRows, MemoryBudget, seen_from
from icefloe.batch.map.read_tally import FileTally
from icefloe.batch.rows.file_effects import FileEffects
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.batch.rows.row_set import Positions
from icefloe.changes.copied_rows import rows_not_copied
from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes_of_batch

_BYTES_PER_ROW: Final = 72
"""A row id, a sequence number, a position, and memory to find copies."""
_LEAST_COPIED: Final = 0.5
"""If fewer rows are copies, comparing values in order is cheaper than reading so many rows by position."""

Files = Sequence[FileEffects]


def files_with_lineage(files: Files) -> Iterator[tuple[Files, Files]]:
    """Removed and added files of a step that have row ids: in pairs, or all together if there are more of one."""
    by_ordinal: dict[int, tuple[list[FileEffects], list[FileEffects]]] = {}
    for file in files:
        if _has_lineage(file):
            [effect] = file.effects
            by_ordinal.setdefault(effect.change_ordinal, ([], []))[effect.weight > 0].append(file)
    for removed, added in by_ordinal.values():
        if len(removed) == len(added):
            # The plan has files in the order of their bounds, so the first removed file became the first added file.
            yield from (([one], [other]) for one, other in zip(removed, added, strict=True))
        elif removed and added:
            yield removed, added


def _has_lineage(file: FileEffects) -> bool:
    if file.data_file.first_row_id is None or len(file.effects) != 1:
        return False
    [effect] = file.effects
    return abs(effect.weight) == 1 and effect.rows.is_all_but


def rows_by_lineage(
    removed: Files, added: Files, reader: TableRowReader, *, budget: MemoryBudget
) -> list[HashedRows] | None:
    """The rows of files that are left if copied rows cancel.

    Args:
        removed: files of one step.
        added: files of the same step.
        reader: reads the files.
        budget: memory for the rows that are left; what does not fit is read again by position.

    Returns:
        The hashed rows of each file; None if memory is short, row ids are missing or doubled, or few rows are copies.
    """
    rows = sum(file.touched_count() for file in (*removed, *added))
    if rows * _BYTES_PER_ROW > budget.free_bytes:
        return None
    sides = [[_FileLineage(file, reader) for file in side] for side in (removed, added)]
    if any(not each.is_whole for side in sides for each in side):
        return None
    not_copied = rows_not_copied(*(np.concatenate(numbers) for side in sides for numbers in _columns(side)))
    if not_copied is None or sum(map(len, not_copied)) > (1 - _LEAST_COPIED) * rows:
        return None
    found = []
    for side, of_side in zip(sides, not_copied, strict=True):
        bounds = np.cumsum([0, *(len(each.positions) for each in side)])
        cuts = pairwise(np.searchsorted(of_side, bounds))
        for each, start, (first, last) in zip(side, bounds[:-1], cuts, strict=True):
            found.append(each.hashed(each.positions[of_side[first:last] - start], reader, budget))
    return found


def _columns(side: "Sequence[_FileLineage]") -> Iterator[list[Positions]]:
    yield [each.row_ids for each in side]
    yield [each.sequence_numbers for each in side]


class _FileLineage:
    """The lineage of the touched rows of one file."""

    def __init__(self, file: FileEffects, reader: TableRowReader) -> None:
        self.tally = FileTally(file)
        positions, batches = [], []
        for rows in reader.read_lineage(file):
            self.tally.add(rows)
            positions.append(rows.positions)
            batches.append(rows.batch)
        self.positions = np.concatenate(positions)
        table = pa.Table.from_batches(batches)
        self.is_whole = not any(column.null_count for column in table.columns)
        self.row_ids, self.sequence_numbers = (column.to_numpy() for column in table.columns)

    def hashed(self, left: Positions, reader: TableRowReader, budget: MemoryBudget) -> HashedRows:
        """The rows at the positions that are left, kept if memory allows."""
        hashes, kept, kept_bytes = [], [], 0
        for batch in reader.read_rows(self.tally.file.data_file, left):
            hashes.append(row_hashes_of_batch(batch, key=reader.shape.hash_key))
            kept_bytes += batch.nbytes
            if kept_bytes <= budget.free_bytes:
                kept.append(batch)
        is_kept = budget.take(kept_bytes)
        return HashedRows(
            tally=self.tally,
            effects=seen_from(self.tally.file.effects, left),
            hashes=RowHashes.concat(hashes),
            kept=kept if is_kept else None,
            places=None if is_kept else left,
        )
