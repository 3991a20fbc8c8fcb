"""An opened data file: the contract of all formats, its rows in the table's schema, and kept projections."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.iceberg.data_file import Constant
from icefloe.iceberg.schemas.arrow_columns import FileColumn, file_columns
from icefloe.iceberg.schemas.projection import Projection, plan_projection
from icefloe.iceberg.schemas.table_schema import TableSchema

BATCH_BYTES: Final = 16 << 20
"""Approximate size of a decoded batch. Decoding takes four times as much; rows of several MiB come a few at a time."""


class OpenedFile(Protocol):
    """The rows of a file as Arrow batches of its own columns, in order and in bounded memory."""

    @property
    def schema(self) -> pa.Schema:
        """The file's columns, field ids in their metadata."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""

    def group_runs(self) -> Iterator[tuple[int, int, list[int]]]:
        """(first row, rows, groups) read together, in order."""

    def batches(self, groups: Sequence[int], columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows of the last run of ``group_runs``, in order."""


def selected_columns(
    names: Sequence[str], positions: Collection[int], *, dots_are_paths: bool
) -> tuple[list[str] | None, Mapping[int, int]]:
    """Names of some top-level columns, None for all, and each one's index in a batch.

    All columns are read if a name appears twice, or may be taken for a path.

    >>> selected_columns(["a", "b", "c"], {2, 0}, dots_are_paths=True)
    (['a', 'c'], {0: 0, 2: 1})
    """
    is_path = dots_are_paths and any("." in name for name in names)
    if len(positions) == len(names) or len(set(names)) < len(names) or is_path:
        return None, {position: position for position in range(len(names))}
    read = sorted(positions)
    return [names[position] for position in read], {position: place for place, position in enumerate(read)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedFile:
    """An opened file, and the way from its own columns to the table's."""

    rows: OpenedFile
    file_columns: tuple[FileColumn, ...]
    projection: Projection
    columns: list[str] | None
    places: Mapping[int, int]
    decoded: Callable[[pa.RecordBatch], None] | None

    def batches(self, groups: list[int]) -> Iterator[pa.RecordBatch]:
        """The rows of consecutive row groups, in the file's own columns."""
        for batch in self.rows.batches(groups, self.columns):
            if self.decoded is not None:
                self.decoded(batch)
            yield batch

    def project(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the file's own columns as one of the table's."""
        return self.projection.apply(batch, self.places)

    def rows_of(self, groups: list[int], wanted: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """The rows at positions within a run; stops decoding after the last one."""
        # Positions 3 and 9 in batches of 4 rows:  row 3 of the first batch, none of the second, row 1 of the third.
        start = 0
        for batch in self.batches(groups) if len(wanted) else ():
            in_batch, wanted = np.split(wanted, [np.searchsorted(wanted, start + batch.num_rows)])
            if len(in_batch):
                yield self.project(batch.take(pa.array(in_batch - start)))
            if not len(wanted):
                return
            start += batch.num_rows


_KEPT_SCHEMAS: Final = 8
_Made = tuple[tuple[FileColumn, ...], Projection]
_MadeFor = tuple[TableSchema, pa.Schema, Mapping[str, Constant]]


class KeptProjections:
    """The last projection of each of a few schemas, for one thread."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, bool], tuple[_MadeFor, _Made]] = OrderedDict()

    def of(
        self,
        file_schema: pa.Schema,
        schema: TableSchema,
        constants: Mapping[str, Constant],
        *,
        keep_dictionaries: bool,
    ) -> _Made:
        """The columns of a file, and their projection; see `plan_projection`."""
        # A schema is kept with its projection, so no other one gets its id.
        key = id(schema), keep_dictionaries
        if key in self._kept:
            (_, of_schema, of_constants), made = self._kept[key]
            # Field ids are in the metadata of the fields.
            if of_constants == constants and of_schema.equals(file_schema, check_metadata=True):
                return made
        columns = file_columns(file_schema, schema.name_mapping)
        made = columns, plan_projection(columns, schema.columns, constants, keep_dictionaries=keep_dictionaries)
        self._kept[key] = (schema, file_schema, constants), made
        if len(self._kept) > _KEPT_SCHEMAS:
            self._kept.popitem(last=False)
        return made
