"""What the reader needs of an opened data file, whatever its format."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from icefloe.iceberg.filters.row_filter import RowFilter
    from icefloe.iceberg.projection.file_columns import FileColumn

__all__ = ["BATCH_BYTES", "OpenedFile", "selected_columns"]

BATCH_BYTES: Final = 64 << 20
"""About how much a batch holds, decoded: rows of several MiB come a few at a time."""


class OpenedFile(Protocol):
    """The rows of one file as Arrow batches of the file's own columns, in order and in bounded memory."""

    @property
    def schema(self) -> pa.Schema:
        """The file's columns as they are read, field ids in their metadata."""

    @property
    def num_rows(self) -> int | None:
        """The rows of the file; None where only reading all of it tells."""

    def groups_without(self, row_filter: "RowFilter", columns: Sequence["FileColumn"]) -> Collection[int]:
        """Groups of which the file itself says that no row passes a filter; ``columns`` are all of the file's."""

    def group_runs(self, left_out: Collection[int] = ()) -> Iterator[tuple[int, int, list[int]]]:
        """What is read together, in order, as (first row, rows, groups); no groups for rows that are left out."""

    def batches(self, groups: Sequence[int], columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows of the run that ``group_runs`` gave last, in order."""

    def selection(self, positions: Collection[int]) -> tuple[list[str] | None, Mapping[int, int]]:
        """How to read only some top-level columns: their names, None for all, and where in a batch each one stands."""


def selected_columns(names: Sequence[str], positions: Collection[int]) -> tuple[list[str] | None, Mapping[int, int]]:
    """The selection of a format whose columns are told apart by name; all are read where one stands twice.

    >>> selected_columns(["a", "b", "c"], {2, 0})
    (['a', 'c'], {0: 0, 2: 1})
    """
    if len(positions) == len(names) or len(set(names)) < len(names):
        return None, {position: position for position in range(len(names))}
    read = sorted(positions)
    return [names[position] for position in read], {position: place for place, position in enumerate(read)}
