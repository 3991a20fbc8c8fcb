"""A file read in order through a window, and the rows of it that are left."""

import numpy as np
import pyarrow as pa

from icefloe.batch.map.hashed_rows import MemoryBudget
from icefloe.batch.map.read_tally import FileTally
from icefloe.batch.map.remaining_rows import RemainingRows
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.batch.rows.row_set import Positions


class FileWindow:
    """A file read in order. Its window holds the rows that were read and are not done.

    Args:
        tally: tally of the file.
        reader: reads the file.
        budget: memory for the rows that are left.
        most_left_rows: the most rows that may be left.

    Attributes:
        remaining: rows that have no equal row, until now.
        rows_done: number of rows before the window.
        window: rows that were read and are not done; the first of them is the next row of the file.
    """

    def __init__(self, tally: FileTally, reader: TableRowReader, budget: MemoryBudget, *, most_left_rows: int) -> None:
        self.remaining = RemainingRows(tally, reader, budget)
        self.window: pa.RecordBatch = pa.record_batch({})
        self._batch_rows = 0
        self._batches = reader.read(tally.file)
        self._tally = tally
        self.rows_done = 0
        self._most_left_rows = most_left_rows

    @property
    def rows_ahead(self) -> int:
        """Number of rows that are not done."""
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
        """The first rows of the window."""
        return self.window.slice(0, num_rows)

    def finish(self, num_rows: int, unequal: Positions | None = None) -> None:
        """Is done with the first rows of the window.

        Args:
            num_rows: number of rows.
            unequal: places of those that are left, ascending; None: all.
        """
        if unequal is None and num_rows < self._batch_rows / 2:
            unequal = np.arange(num_rows)  # copied: a slice would keep the whole batch in memory
        if unequal is None or len(unequal):
            self.remaining.add(self.head(num_rows), np.arange(self.rows_done, self.rows_done + num_rows), unequal)
        self.rows_done += num_rows
        self.window = self.window.slice(num_rows)

    def leave_rest(self) -> bool:
        """Leaves all rows to the end of the file; False if they are too many."""
        while not self.has_too_many:
            if not self.fill():
                return True
            self.finish(self.window.num_rows)
        return False
