"""Tables that PyIceberg writes for the reader's tests, and files beside them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, NestedField

from icefloe.iceberg.catalog.file_io import open_file_io
from icefloe.iceberg.data_file import DataFile, constant_to_json
from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.catalogs import open_sql_catalog


def open_catalog(folder: Path) -> Catalog:
    return open_sql_catalog("test", folder)


def create_table(folder: Path, schema: Schema, **properties: Any) -> Table:
    catalog = open_catalog(folder)
    catalog.create_namespace_if_not_exists("db")
    return catalog.create_table("db.t", schema, properties={k.replace("_", "-"): str(v) for k, v in properties.items()})


def data_files(table: Table) -> list[DataFile]:
    """The live data files of a table, in the order of its scan."""
    return [_describe(table, task.file) for task in table.scan().plan_files()]


def _describe(table: Table, file: Any) -> DataFile:
    constants = {
        str(field.source_id): constant_to_json(table.schema().find_type(field.source_id), file.partition[at])  # type: ignore[arg-type]
        for at, field in enumerate(table.metadata.specs()[file.spec_id].fields)
        if str(field.transform) == "identity"
    }
    return DataFile(
        path=file.file_path,
        file_format=str(file.file_format.value),
        spec_id=file.spec_id,
        record_count=file.record_count,
        file_size_bytes=file.file_size_in_bytes,
        constants=constants,
    )


def read_table(table: Table, schema: Schema | None = None, **options: Any) -> pa.Table:
    """Every live row, read by icefloe."""
    columns = TableSchema.of(schema or table.schema(), table.metadata.name_mapping())
    batches = [batch for file in data_files(table) for _, batch in reader(table.io).rows(file, columns, **options)]
    return pa.Table.from_batches(batches, columns.arrow if not options.get("dictionary_columns") else None)


def write_file(path: Path, rows: pa.Table, **options: Any) -> DataFile:
    """A Parquet file as it stands, described as a data file."""
    pq.write_table(rows, path, **options)
    return describe(path, rows.num_rows)


def describe(path: Path, rows: int) -> DataFile:
    return DataFile(
        path=str(path), file_format="PARQUET", spec_id=0, record_count=rows, file_size_bytes=path.stat().st_size
    )


def read_one(file: DataFile, *columns: NestedField, **options: Any) -> pa.Table:
    """All rows of one file as columns of a table schema."""
    schema = TableSchema.of(Schema(*columns), options.pop("name_mapping", None))
    batches = [batch for _, batch in reader().rows(file, schema, **options)]
    return pa.Table.from_batches(batches, None if options.get("dictionary_columns") else schema.arrow)


def reader(io: FileIO | None = None, **options: Any) -> FileReader:
    return FileReader(io=io or local_io(), table="db.t", **options)


def local_io() -> FileIO:
    return open_file_io({}, "file:///tmp")


def with_id(field_id: int, field: pa.Field) -> pa.Field:
    """An Arrow field that carries an Iceberg field id into Parquet."""
    return field.with_metadata({"PARQUET:field_id": str(field_id)})


def column(name: str, values: pa.Array, field_id: int = 1) -> pa.Table:
    """A table of one column with a field id."""
    return pa.table([values], schema=pa.schema([with_id(field_id, pa.field(name, values.type))]))


def optional(name: str, kind: IcebergType, field_id: int = 1, **options: Any) -> NestedField:
    return NestedField(field_id, name, kind, required=False, **options)
