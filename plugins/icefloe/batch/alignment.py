"""Files that a writer rewrote in place: compared position by position, nearly every row cancels without a hash."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from icefloe.batch.candidates import Candidates
from icefloe.batch.document import FileWork
from icefloe.batch.memory_budget import MemoryBudget
from icefloe.batch.row_reader import TableRowReader
from icefloe.changes.alignment import aligned_batches, differing_rows
from icefloe.changes.row_hash import RowHashes, row_hashes_of_batch

__all__ = ["align", "alignable_pairs"]

_ALIGNED_SHARE: Final = 0.25
"""Above this share of differing rows the row order was not kept, and hashing is cheaper."""


def alignable_pairs(files: Sequence[FileWork]) -> Iterator[tuple[FileWork, FileWork]]:
    """Files removed and added by one and the same step that have equally many rows; each file in one pair at most."""
    removed: dict[tuple[int, int], list[FileWork]] = {}
    for work in files:
        if len(work.weights) == 1 and work.weights[0][1] < 0:
            removed.setdefault((work.weights[0][0], work.data_file.record_count), []).append(work)
    for work in files:
        if len(work.weights) == 1 and work.weights[0][1] > 0:
            like = removed.get((work.weights[0][0], work.data_file.record_count))
            if like:
                yield like.pop(0), work


def align(
    removed: FileWork, added: FileWork, reader: TableRowReader, *, budget: MemoryBudget
) -> tuple[Candidates, Candidates] | None:
    """The rows of two files that differ by position, kept in memory.

    Args:
        removed: one file.
        added: another of equally many rows.
        reader: how to read them.
        budget: for the rows that differ.

    Returns:
        The candidates of each file; None where the row order was not kept, or memory is short.
    """
    sides = [(batch for _, batch in reader.read_file(work)) for work in (removed, added)]
    kept: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
    rows_seen = rows_kept = kept_bytes = 0
    for pair in aligned_batches(*sides):
        differing = differing_rows(*pair)
        rows_seen += pair[0].num_rows
        rows_kept += len(differing)
        if rows_kept > _ALIGNED_SHARE * rows_seen:
            return None
        for batch, side in zip(pair, kept, strict=True):
            side.append(reader.plain(batch.take(pa.array(differing))))
            kept_bytes += side[-1].nbytes
        if kept_bytes > budget.free_bytes:
            return None
    budget.take(kept_bytes)
    first, second = (
        Candidates(
            work=work,
            rows_read=rows_seen,
            hashes=RowHashes.concat([row_hashes_of_batch(batch) for batch in side]),
            kept=side,
        )
        for work, side in zip((removed, added), kept, strict=True)
    )
    return first, second
