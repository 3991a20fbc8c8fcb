"""Files rewritten in place, compared position by position. Nearly every row cancels without a hash."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from icefloe.batch.map.hashed_rows import HashedRows, MemoryBudget
from icefloe.batch.map.read_tally import FileTally
from icefloe.batch.rows.file_effects import FileRows
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.changes.alignment import aligned_batches, differing_rows
from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes_of_batch

_ALIGNED_SHARE: Final = 0.25
"""Above this share of differing rows the row order was not kept, and hashing is cheaper."""


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


def align(
    removed: FileRows, added: FileRows, reader: TableRowReader, *, budget: MemoryBudget
) -> tuple[HashedRows, HashedRows] | None:
    """The rows of two files that differ by position, kept in memory.

    Args:
        removed: one file.
        added: another file with as many rows.
        reader: reads the files.
        budget: memory for the rows that differ.

    Returns:
        The hashed rows of each file; None if the row order was not kept, or memory is short.
    """
    tallies = FileTally(removed), FileTally(added)
    sides = [_counted(tally, reader) for tally in tallies]
    kept: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
    rows_seen = rows_kept = kept_bytes = 0
    for pair in aligned_batches(*sides):
        differing = differing_rows(*pair)
        rows_seen += pair[0].num_rows
        rows_kept += len(differing)
        # After every batch: a writer that lost the order shows it in the first one. To go on would decode both files
        # twice.
        if rows_kept > _ALIGNED_SHARE * rows_seen:
            return None
        for batch, side in zip(pair, kept, strict=True):
            side.append(reader.plain(batch.take(pa.array(differing))))
            kept_bytes += side[-1].nbytes
        if kept_bytes > budget.free_bytes:
            return None
    budget.take(kept_bytes)
    first, second = (
        HashedRows(
            tally=tally,
            effects=tally.file.effects,
            hashes=RowHashes.concat([row_hashes_of_batch(batch) for batch in side]),
            kept=side,
        )
        for tally, side in zip(tallies, kept, strict=True)
    )
    return first, second


def _counted(tally: FileTally, reader: TableRowReader) -> Iterator[pa.RecordBatch]:
    for rows in reader.read(tally.file):
        tally.add(rows)
        yield rows.batch
