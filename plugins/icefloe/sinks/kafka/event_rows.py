"""Changes as events: an update is one event of two rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.changes.columns import CHANGE_TYPE, COMMIT_SNAPSHOT_ID, ChangeType
from icefloe.sinks.row_groups import row_slices

_MOST_ROWS: Final = 8_192
_MOST_BYTES: Final = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRows:
    """The rows of some events, and where each event has its images.

    Attributes:
        rows: changes, with the change columns.
        first_row: number of rows before them in the part.
        rows_before: number of rows in the parts before it.
        kinds: ``DELETE``, ``INSERT`` or ``UPDATE_AFTER`` of each event, as `ChangeType` codes.
        befores: position of the row before; -1: there is none.
        afters: position of the row after; -1: there is none.
    """

    rows: pa.RecordBatch
    first_row: int
    rows_before: int
    kinds: NDArray[np.uint8]
    befores: NDArray[np.int64]
    afters: NDArray[np.int64]

    @classmethod
    def of(cls, rows: pa.RecordBatch, *, first_row: int, rows_before: int) -> "EventRows":
        """The events of rows of which no update is cut."""
        kinds = kinds_of(rows)
        is_second = np.concatenate([[False], kinds[:-1] == ChangeType.UPDATE_BEFORE])
        positions = np.flatnonzero(kinds != ChangeType.UPDATE_BEFORE)
        own, paired = kinds[positions], is_second[positions]
        befores = np.where(own == ChangeType.DELETE, positions, np.where(paired, positions - 1, -1))
        afters = np.where(own == ChangeType.DELETE, -1, positions)
        return cls(rows=rows, first_row=first_row, rows_before=rows_before, kinds=own, befores=befores, afters=afters)

    @property
    def positions(self) -> NDArray[np.int64]:
        """Position of the row that gives each event its key, its ordinal and its snapshot."""
        return np.where(self.afters < 0, self.befores, self.afters)

    @property
    def deletes(self) -> list[bool]:
        """True for each event of a row that is gone."""
        return (self.kinds == ChangeType.DELETE).tolist()

    @property
    def snapshot_ids(self) -> list[int]:
        """The snapshot of each event."""
        return self.rows.column(COMMIT_SNAPSHOT_ID).take(pa.array(self.positions)).to_pylist()

    @property
    def orders(self) -> NDArray[np.int64]:
        """Numbers that grow with each event of the batch, from 1; an update takes two of them."""
        return self.rows_before + self.ends

    @property
    def ends(self) -> NDArray[np.int64]:
        """The first rows of the part that are delivered once the event is."""
        return self.first_row + np.maximum(self.befores, self.afters) + 1


def event_rows(batches: Iterable[pa.RecordBatch], *, skip_rows: int = 0, rows_before: int = 0) -> Iterator[EventRows]:
    """The events of a part, some thousand at a time.

    Args:
        batches: all rows of the part.
        skip_rows: the first rows, which are delivered already.
        rows_before: rows of the parts before it.
    """
    first_row, held = 0, None
    for batch in batches:
        for rows in row_slices(batch, max_rows=_MOST_ROWS, max_bytes=_MOST_BYTES):
            if first_row + rows.num_rows <= skip_rows:
                first_row += rows.num_rows
                continue
            start = max(skip_rows - first_row, 0)
            first_row += start
            kept = rows.slice(start)
            if held is not None:
                kept = pa.concat_batches([held, kept])
                first_row -= 1
                held = None
            if kinds_of(kept)[-1] == ChangeType.UPDATE_BEFORE:
                # The row after is in the next slice.
                kept, held = kept.slice(0, kept.num_rows - 1), kept.slice(kept.num_rows - 1)
            if kept.num_rows:
                yield EventRows.of(kept, first_row=first_row, rows_before=rows_before)
            first_row += kept.num_rows + (held is not None)


def kinds_of(rows: pa.RecordBatch) -> NDArray[np.uint8]:
    """`ChangeType` codes of rows."""
    names = pa.array([kind.name for kind in ChangeType])
    return pc.index_in(rows.column(CHANGE_TYPE), value_set=names).to_numpy(zero_copy_only=False).astype(np.uint8)
