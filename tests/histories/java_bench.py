"""Histories that Iceberg's Java API writes: every kind of delete file, compaction, branches; and Spark SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import FixedType, PrimitiveType
from pyspark.errors import PySparkException

from histories.bench import Bench, BenchOperation
from histories.column_values import Seeds, named_row
from histories.history import TableShape
from histories.pyiceberg_bench import iceberg_schema, partition_spec
from histories.schema_edits import JavaPartitionEdits, JavaSchemaEdits
from support.spark.java_writers import JavaCommits, JavaWriters
from support.spark.spark_lab import CATALOG, NAMESPACE, SparkLab
from support.spark.spark_table import SparkTable

__all__ = ["JavaBench"]


class JavaBench(Bench):
    """A table of the catalog that Spark and PyIceberg share.

    Attributes:
        writers: of files and commits, for the table.
        commits: what commits go to: the table, or the transaction that is open.
        options: of commits: the branch they go to.
    """

    operations: ClassVar[Mapping[str, BenchOperation]] = {}
    refusals: ClassVar[tuple[type[Exception], ...]] = (ValueError, Py4JJavaError, PySparkException)
    # Iceberg 1.11 cannot read the manifests that it writes then (apache/iceberg 17501).
    unpartitionable: ClassVar[tuple[type[PrimitiveType], ...]] = (FixedType,)

    def __init__(self, table: SparkTable) -> None:
        super().__init__()
        self.writers = JavaWriters(table)
        self.commits: JavaCommits = self.writers
        self.options: dict[str, Any] = {}

    @classmethod
    def create(cls, lab: SparkLab, name: str, shape: TableShape) -> Self:
        """A new table of a shape, of any format version."""
        iceberg = lab.spark._jvm.org.apache.iceberg
        schema = iceberg_schema(shape)
        java_schema = iceberg.SchemaParser.fromJson(schema.model_dump_json())
        spec = iceberg.PartitionSpecParser.fromJson(java_schema, partition_spec(shape, schema).model_dump_json())
        identifier = iceberg.catalog.TableIdentifier.parse(f"{NAMESPACE}.{name}")
        catalog = iceberg.spark.Spark3Util.loadIcebergCatalog(lab.spark._jsparkSession, CATALOG)
        builder = catalog.buildTable(identifier, java_schema).withPartitionSpec(spec)
        for key, value in {"format-version": str(shape.format_version), **shape.properties}.items():
            builder.withProperty(key, value)
        builder.create()
        return cls(SparkTable(lab=lab, name=f"{CATALOG}.{NAMESPACE}.{name}", identifier=f"{NAMESPACE}.{name}"))

    @property
    def identifier(self) -> str:
        return self.writers.table.identifier

    def catalog_properties(self) -> Mapping[str, str]:
        return {"name": CATALOG, **self.writers.table.lab.catalog_properties}

    def table(self) -> Table:
        return self.writers.table.load()

    def rows_at(self, snapshot_id: int) -> pa.Table:
        iceberg = self.writers._iceberg
        full_schema = self.trace.full_schemas[snapshot_id]
        table = past_table(self.writers, self.trace.metadata_locations[snapshot_id], full_schema)
        schema = iceberg.SchemaParser.fromJson(full_schema.model_dump_json())
        if self.trace.has_row_ids(snapshot_id):
            columns = self.writers._rows.jvm.java.util.ArrayList(schema.columns())
            columns.add(iceberg.MetadataColumns.ROW_ID)
            schema = iceberg.Schema(columns)
        records = iceberg.data.IcebergGenerics.read(table).useSnapshot(snapshot_id).project(schema).build()
        return self.writers._rows.rows(records, schema)

    def append(self, files: Sequence[Sequence[Seeds]]) -> None:
        self.commits.append([file for rows in files for file in self.write(rows)], **self.options)

    def write(self, rows: Sequence[Seeds], *, file_format: str = "parquet") -> list[Any]:
        """Data files with the rows, one for each partition."""
        schema = self.table().schema()
        return self.writers.data_files([named_row(schema, row) for row in rows], file_format=file_format)

    def scan_tasks(self) -> list[Any]:
        """Java's file scan tasks of the branch that commits go to, by the location of the file."""
        return self.writers.scan_tasks(self.options.get("branch"))

    def live_rows(self, task: Any) -> list[dict[str, Any]]:
        """The rows of a data file that its deletes leave, read by Iceberg, in the table's schema."""
        iceberg, rows = self.writers._iceberg, self.writers._rows
        io, schema = self.writers._java.io(), self.writers._java.schema()
        deletes = iceberg.data.GenericDeleteFilter(io, task, schema, schema)
        source = io.newInputFile(task.file().location())
        builder = iceberg.formats.FormatModelRegistry.readBuilder(
            task.file().format(), rows.named("data.Record"), source
        )
        records = builder.project(deletes.requiredSchema()).build()
        found: list[dict[str, Any]] = rows.rows(deletes.filter(records), schema).to_pylist()
        return found

    @contextmanager
    def edit_schema(self) -> Iterator[JavaSchemaEdits]:
        with self.commits.schema() as update:
            yield JavaSchemaEdits(update, self.writers._iceberg, self.writers._rows.strings)

    @contextmanager
    def edit_partitions(self) -> Iterator[JavaPartitionEdits]:
        with self.commits.spec() as update:
            yield JavaPartitionEdits(update, self.writers._iceberg)

    def roll_back(self, snapshot_id: int) -> None:
        self.writers.manage("rollbackTo", snapshot_id)

    def set_current(self, snapshot_id: int) -> None:
        self.writers.manage("setCurrentSnapshot", snapshot_id)

    def expire(self, snapshot_ids: Sequence[int]) -> None:
        self.writers.expire(*snapshot_ids)


def past_table(writers: JavaWriters, metadata_location: str, full_schema: Schema) -> Any:
    """Java's table by one of its metadata files, with dropped columns back in its schema.

    Iceberg 1.11's generic reader looks for the columns of equality deletes in the table's schema of now alone, and
    fails where one was dropped.
    """
    iceberg, io = writers._iceberg, writers._java.io()
    metadata = iceberg.TableMetadataParser.read(io, metadata_location)
    schema = iceberg.SchemaParser.fromJson(full_schema.model_dump_json())
    builder = iceberg.TableMetadata.buildFrom(metadata).setCurrentSchema(schema, metadata.lastColumnId())
    metadata = builder.discardChanges().build()
    return iceberg.BaseTable(iceberg.StaticTableOperations(metadata, io), metadata_location)
