"""Rows of a target, found by key in the files that can hold them."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.types import (
    BooleanType,
    DateType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.sinks.batch_to_deliver import named_columns

_WHOLE = (IntegerType, LongType, DateType, TimeType, TimestampType, TimestamptzType)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRows:
    """Rows of one data file that are live and have a key."""

    task: FileScanTask
    positions: NDArray[np.int64]  # ascending
    places: NDArray[np.int64]  # of the key of each row among those that were looked for
    deleted: NDArray[np.int64]  # positions that delete files remove already

    def numbered(self, places: NDArray[np.int64]) -> "FoundRows":
        """The rows with other places; those without one, -1, are left out."""
        has_place = places >= 0
        return replace(self, positions=self.positions[has_place], places=places[has_place])


class TargetRows:
    """The live rows of a table, as a transaction has it by now."""

    def __init__(self, transaction: Transaction, branch: str = MAIN_BRANCH) -> None:
        self._transaction = transaction
        self._branch = branch
        self._io = transaction._table.io  # noqa: SLF001
        self._metadata = transaction.table_metadata

    def find(
        self, keys: pa.RecordBatch, copies: NDArray[np.int64], narrowing: Mapping[str, pa.ChunkedArray]
    ) -> tuple[list[FoundRows], NDArray[np.int64]]:
        """The rows with some keys, and how many there are of each key.

        Args:
            keys: different ones, in columns with the target's names, nested ones dotted.
            copies: the most rows of each key to be found; the first ones count.
            narrowing: further columns of the rows, whose values tell files apart.
        """
        hash_key = RowHashes.new_key()
        wanted = RowHashes.of(keys.columns, key=hash_key).to_column()
        counts, found = np.zeros(len(wanted), np.int64), list[FoundRows]()
        names = keys.schema.names
        schema = self._metadata.schema().select(*names)
        for task in self._tasks({**narrowing, **dict(zip(names, keys.columns, strict=True))}):
            deleted, positions, first = self._deleted(task), list[NDArray[np.int64]](), 0
            found_places = list[NDArray[np.int64]]()
            for rows in self.rows_of(task, schema):
                columns = zip(named_columns(rows, names), keys.schema.types, strict=True)
                hashes = RowHashes.of([like(*each) for each in columns], key=hash_key).to_column()
                places = pc.index_in(hashes, value_set=wanted).fill_null(-1).to_numpy(zero_copy_only=False)
                here = np.flatnonzero(places >= 0)
                here = here[~np.isin(here + first, deleted)]
                here = here[_ranks(places[here]) < (copies - counts)[places[here]]]
                counts += np.bincount(places[here], minlength=len(wanted))
                positions.append(here + first)
                found_places.append(places[here].astype(np.int64))
                first += rows.num_rows
            if sum(map(len, positions)):
                each = FoundRows(
                    task=task,
                    positions=np.concatenate(positions),
                    places=np.concatenate(found_places),
                    deleted=deleted,
                )
                found.append(each)
        return found, counts

    def read(self, found: FoundRows, schema: Schema) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """The rows that were found in a file, and their places."""
        first = 0
        for rows in self.rows_of(found.task, schema):
            start, stop = np.searchsorted(found.positions, (first, first + rows.num_rows))
            if start < stop:
                yield rows.take(pa.array(found.positions[start:stop] - first)), found.places[start:stop]
            first += rows.num_rows

    def rows_of(self, task: FileScanTask, schema: Schema) -> Iterator[pa.RecordBatch]:
        """All rows of a file in order, also deleted ones."""
        scan = ArrowScan(self._metadata, self._io, schema, AlwaysTrue())
        yield from scan._record_batches_from_scan_tasks_and_deletes([task], {})  # noqa: SLF001 - to_table applies deletes

    def _deleted(self, task: FileScanTask) -> NDArray[np.int64]:
        found = _read_all_delete_files(self._io, [task]).get(task.file.file_path, [])
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(each.to_numpy() for each in found)]))

    def _tasks(self, columns: Mapping[str, pa.ChunkedArray | pa.Array]) -> Iterator[FileScanTask]:
        """Files whose bounds admit a value of every column."""
        schema = self._metadata.schema()
        tests = [_test(schema, name, column) for name, column in columns.items()]
        for task in self._transaction._scan().use_ref(self._branch).plan_files():  # noqa: SLF001 - the state after the staged schema change
            if all(test(task.file) for test in tests):
                yield task


def like(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in another type; fields of structs by their names."""
    if not pa.types.is_struct(kind):
        return column.cast(kind)
    fields = [like(pc.struct_field(column, [each.name]), each.type) for each in kind]
    return pa.StructArray.from_arrays(fields, fields=[*kind], mask=column.is_null())


def as_wide(kind: pa.DataType, held: pa.DataType) -> pa.DataType:
    """A type of the source with the numbers of its column in a target, which are never narrower: both fit it."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(as_wide(each.type, held.field(each.name).type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(as_wide(kind.key_type, held.key_type), as_wide(kind.item_type, held.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", as_wide(kind.value_type, held.value_type)))
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return held if is_number else kind


def _ranks(places: NDArray[np.int32]) -> NDArray[np.int64]:
    """The number of earlier equal values, of each value.

    >>> _ranks(np.array([7, 3, 7, 7])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(places, kind="stable")
    starts = np.flatnonzero(np.diff(places[order], prepend=-1))
    ranks = np.empty(len(places), np.int64)
    ranks[order] = np.arange(len(places)) - np.repeat(starts, np.diff(starts, append=len(places)))
    return ranks


def _test(schema: Schema, name: str, column: pa.ChunkedArray | pa.Array) -> Callable[[DataFile], bool]:
    """True of a file that may hold a value of a column, by its bounds."""
    field = schema.find_field(name)
    kind = field.field_type
    values = _ordered(kind, column)

    def may_hold(file: DataFile) -> bool:
        low, high = ((each or {}).get(field.field_id) for each in (file.lower_bounds, file.upper_bounds))
        if values is None or low is None or high is None or not isinstance(kind, PrimitiveType):
            return True
        first, last = (from_bytes(kind, each) for each in (low, high))
        return bisect_left(values, first) < bisect_right(values, last)

    return may_hold


def _ordered(kind: object, column: pa.ChunkedArray | pa.Array) -> Sequence[Any] | None:
    """The values in order, as bounds have them; None if the bounds of the type are not used."""
    if column.null_count:
        return None
    if isinstance(kind, _WHOLE):
        wide = column.cast(pa.int32()) if pa.types.is_date(column.type) else column
        return np.unique(wide.cast(pa.int64()).to_numpy()).tolist()
    return sorted(pc.unique(column).to_pylist()) if isinstance(kind, (BooleanType, StringType)) else None
