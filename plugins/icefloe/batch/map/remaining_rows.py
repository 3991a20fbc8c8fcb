"""Rows of one file that remain to be compared, hashed, and kept in memory as long as there is some."""

import numpy as np
import pyarrow as pa

from icefloe.batch.map.hashed_rows import HashedRows, MemoryBudget, seen_from
from icefloe.batch.map.read_tally import FileTally
from icefloe.batch.rows.file_effects import FileEffects
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.batch.rows.row_set import Positions
from icefloe.changes.hash_slice import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes_of_batch


class RemainingRows:
    """Collects rows with their hashes. Rows that do not fit into memory are read again if they survive.

    Args:
        tally: tally of their file.
        reader: decodes text of single rows.
        budget: its free bytes decide whether the rows are kept.
    """

    def __init__(self, tally: FileTally, reader: TableRowReader, budget: MemoryBudget) -> None:
        self.tally = tally
        self.num_rows = 0
        self._reader = reader
        self._budget = budget
        self._hashes: list[RowHashes] = []
        self._positions: list[Positions] = [np.zeros(0, np.int64)]
        self._kept: list[pa.RecordBatch] | None = []
        self._kept_bytes = 0

    def add(self, batch: pa.RecordBatch, positions: Positions, rows: Positions | None = None) -> None:
        """Adds rows of a batch.

        Args:
            batch: compared rows.
            positions: their positions in the file.
            rows: places in the batch of the rows to add, which are copied; None: all, and the batch is kept.
        """
        if rows is not None:
            batch, positions = self._reader.plain(batch.take(pa.array(rows))), positions[rows]
        if not batch.num_rows:
            return
        self._append(row_hashes_of_batch(batch, key=self._reader.shape.hash_key), positions)
        self._keep(batch)

    def add_slice(self, batch: pa.RecordBatch, positions: Positions, hash_slice: HashSlice) -> None:
        """Adds the rows of a batch whose hashes are in a slice. They are never kept."""
        if hash_slice.is_whole:
            self.add(batch, positions)
            return
        self.forget()
        hashed = row_hashes_of_batch(batch, key=self._reader.shape.hash_key)
        in_slice = hash_slice.positions(hashed)
        self._append(hashed.take(in_slice), positions[in_slice])

    def forget(self) -> None:
        """Keeps no rows any more. Hashes and positions stay."""
        self._kept = None
        self._budget.give_back(self._kept_bytes)
        self._kept_bytes = 0

    def hashed_rows(self) -> HashedRows:
        """The rows that were added."""
        places = np.concatenate(self._positions)
        return HashedRows(
            tally=self.tally,
            effects=seen_from(self.tally.file.effects, places),
            hashes=RowHashes.concat(self._hashes),
            kept=self._kept,
            places=places if self._kept is None else None,
        )

    def _append(self, hashes: RowHashes, positions: Positions) -> None:
        self._hashes.append(hashes)
        self._positions.append(positions)
        self.num_rows += len(positions)

    def _keep(self, batch: pa.RecordBatch) -> None:
        if self._kept is None:
            return
        if not self._budget.take(batch.nbytes):
            self.forget()
            return
        self._kept.append(batch)
        self._kept_bytes += batch.nbytes


def hash_file(file: FileEffects, reader: TableRowReader, *, budget: MemoryBudget, hash_slice: HashSlice) -> HashedRows:
    """Every touched row of a file with its hash, or only the rows whose hashes are in a slice.

    Args:
        file: with its effects.
        reader: reads the file.
        budget: its free bytes decide whether the rows are kept; rows of a slice are never kept.
        hash_slice: slice of the hashes.
    """
    left = RemainingRows(FileTally(file), reader, budget)
    for rows in reader.read(file):
        left.tally.add(rows)
        left.add_slice(rows.batch, rows.positions, hash_slice)
    return left.hashed_rows()
