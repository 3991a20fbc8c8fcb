"""Tables as they were: what a reader of Iceberg saw when a snapshot was new."""

from __future__ import annotations

from typing import Any

from pyiceberg.schema import Schema

from support.spark.java_writers import JavaWriters

__all__ = ["past_table"]


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
