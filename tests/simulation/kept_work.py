"""Work that schedules repeat with the same outcome, done once in a process.

The table's files never change, so most schedules plan the same batches, compare the same rows and write the same parts.
Kept are functions of their arguments alone. They make no operation of the simulated store, so a schedule loses none.
Whatever passes through the store is read there each time; only the parsing of equal bytes is kept.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest.mock import patch

import pyarrow as pa
from pydantic import TypeAdapter

from icefloe import documents
from icefloe.batch.context import batch_folder
from icefloe.batch.map import write_map_output, write_part
from icefloe.batch.map.carryover import CarryOver
from icefloe.batch.map.hashed_rows import ReadTally
from icefloe.batch.plan import make_plan as planning
from icefloe.batch.plan.make_plan import PlannedBatch, make_plan
from icefloe.batch.plan_document import MapTask
from icefloe.batch.rows.file_effects import FileEffects, WeightedRows, task_file_effects
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.batch.rows.row_shape import RowShape
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.iceberg.catalog.file_io import FileIO
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.manifests import manifest_reader
from icefloe.iceberg.manifests.manifest_avro import RawEntry, read_manifest_entries, read_manifest_list
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.sinks import file_form
from icefloe.sinks.parquet_files import write_parquet_files
from simulation.catalog import FILES

__all__ = ["with_kept_work"]

Value = TypeVar("Value")
_MOST_VALUES: Final = 20_000
_MOST_DOCUMENTS: Final = 5_000
"""Many documents hold names of one schedule, which no other schedule needs."""
_KEPT: Final[dict[Hashable, tuple[Any, frozenset[str]]]] = {}
"""Values, and the files of the table that were read for them."""


@contextmanager
def with_kept_work() -> Iterator[None]:
    """Takes work from earlier schedules as long as the context lasts."""
    with ExitStack() as stack:
        for owner, name, replacement in _REPLACED:
            stack.enter_context(patch.object(owner, name, replacement))
        yield


def _kept(key: Hashable, make: Callable[[], Value]) -> Value:
    """The value under a key, made if there is none; everything is forgotten when there are too many.

    It is made again if a file is gone that was read for it, so that its reader finds out.
    """
    if key in _KEPT:
        value, files = _KEPT[key]
        if files.isdisjoint(FILES.gone):
            FILES.read[-1].update(files)
            return value
    if len(_KEPT) >= _MOST_VALUES:
        _KEPT.clear()
    FILES.read.append(set())
    try:
        value = make()
    finally:
        files = frozenset(FILES.read.pop())
        FILES.read[-1].update(files)
    _KEPT[key] = value, files
    return value


def _manifest_list(io: FileIO, location: str) -> list[dict[str, Any]]:
    return _kept(("manifest list", location), lambda: read_manifest_list(io, location))


def _manifest_entries(io: FileIO, location: str) -> list[RawEntry]:
    return _kept(("manifest", location), lambda: list(read_manifest_entries(io, location)))


def _plan(table: LoadedTable, spec: BatchSpec, *, filter_text: str | None = None) -> PlannedBatch:
    key = ("plan", id(table.metadata), repr(spec), filter_text)
    # An id is an object's own as long as the object lives, so the object is kept too.
    return _kept(key, lambda: (make_plan(table, spec, filter_text=filter_text), table.metadata))[0]


def _schema(schema: Mapping[str, object], *, name_mapping: Sequence[Mapping[str, object]] | None) -> TableSchema:
    return _kept(("schema", repr(schema), repr(name_mapping)), lambda: _SCHEMA_OF(schema, name_mapping=name_mapping))


def _shape(schema: TableSchema, **options: Any) -> RowShape:
    return _kept(("shape", id(schema), repr(options)), lambda: (_SHAPE_OF(schema, **options), schema))[0]


def _file_effects(task: MapTask, **options: Any) -> list[FileEffects]:
    return _kept(("effects", repr(task)), lambda: task_file_effects(task, **options))


class _KeptCarryOver:
    """In place of a `CarryOver`: the rows that an equal one gave."""

    def __init__(self, rows: Sequence[FileEffects], reader: TableRowReader, **options: Any) -> None:
        self._rows, self._reader, self._options = rows, reader, options
        self.files_by_way: dict[str, int] = {}

    def _read(self) -> tuple[list[WeightedRows], ReadTally, int, object]:
        carryover = CarryOver(self._rows, self._reader, **self._options)
        changed = list(carryover.changed_rows())
        return changed, carryover.tally, self._reader.decoded_bytes, (self._rows, self._reader.shape)

    def changed_rows(self) -> Iterator[WeightedRows]:
        """See `CarryOver`."""
        changed, self.tally, self._reader.decoded_bytes, _ = _kept(
            ("changed rows", id(self._rows), id(self._reader.shape), repr(self._options)), self._read
        )
        yield from changed


def _parquet_files(folder: Path, schema: pa.Schema, groups: Iterator[pa.Table], **options: Any) -> list[Path]:
    # Taken all at once: a part of a simulated batch is one group.
    tables = list(groups)
    digest = hashlib.sha256(schema.serialize())
    for table in tables:
        for batch in table.to_batches():
            digest.update(batch.serialize())

    def write() -> list[bytes]:
        return [file.read_bytes() for file in write_parquet_files(folder, schema, iter(tables), **options)]

    made = []
    for number, content in enumerate(_kept(("parquet", digest.digest(), repr(options)), write)):
        made.append(folder / f"{number}.parquet")
        made[-1].write_bytes(content)
    return made


class _Adapter:
    """Parses equal bytes once. That is safe because documents are frozen."""

    def __init__(self, kind: Any) -> None:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        self.dump_json = adapter.dump_json
        self.validate_json = lru_cache(maxsize=_MOST_DOCUMENTS)(adapter.validate_json)


_SCHEMA_OF: Final = TableSchema.from_json
_SHAPE_OF: Final = RowShape.of
_REPLACED: Final = (
    (manifest_reader, "read_manifest_list", _manifest_list),
    (manifest_reader, "read_manifest_entries", _manifest_entries),
    (planning, "make_plan", _plan),
    (TableSchema, "from_json", _schema),
    (RowShape, "of", _shape),
    (batch_folder, "task_file_effects", _file_effects),
    (write_map_output, "CarryOver", _KeptCarryOver),
    (write_part, "CarryOver", _KeptCarryOver),
    (file_form, "write_parquet_files", _parquet_files),
    (documents, "_adapter", lru_cache(maxsize=64)(_Adapter)),
)
