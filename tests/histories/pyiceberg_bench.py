"""Histories that PyIceberg writes, copy-on-write throughout, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Self

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, ValidationError
from pyiceberg.expressions import (
    AlwaysTrue,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    Not,
    NotEqualTo,
)
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table import Transaction as PyIcebergTransaction
from pyiceberg.transforms import parse_transform
from pyiceberg.types import DoubleType, FloatType, NestedField, PrimitiveType

from histories.bench import Bench, BenchOperation, pick
from histories.column_values import Seeds, named_row, type_named, value_of
from histories.history import TableShape
from histories.schema_edits import PyIcebergPartitionEdits, PyIcebergSchemaEdits
from histories.table_changes import TABLE_CHANGES

__all__ = ["PYICEBERG_OPERATIONS", "PyIcebergBench", "iceberg_schema", "partition_spec"]

Condition = Sequence[Any]
"""Column, comparison and value, each a number or a sign: ``[0, "==", 3]``; empty: every row."""
_COMPARISONS: Final[dict[str, Any]] = {"==": EqualTo, "!=": NotEqualTo, "<": LessThan, ">=": GreaterThanOrEqual}
_Writer = Table | PyIcebergTransaction


class PyIcebergBench(Bench):
    """A table of a PyIceberg catalog."""

    operations: ClassVar[Mapping[str, BenchOperation]] = {}
    refusals: ClassVar[tuple[type[Exception], ...]] = (
        ValueError,
        TypeError,
        AttributeError,  # for a bucket of a time
        KeyError,
        NotImplementedError,
        ValidationError,
        CommitFailedException,
        pa.ArrowInvalid,
    )

    def __init__(self, catalog: SqlCatalog, identifier: str) -> None:
        super().__init__()
        self.catalog = catalog
        self._identifier = identifier

    @classmethod
    def create(cls, catalog: SqlCatalog, identifier: str, shape: TableShape) -> Self:
        """A new table of a shape."""
        schema = iceberg_schema(shape)
        properties = {"format-version": str(shape.format_version), **shape.properties}
        catalog.create_table(identifier, schema, partition_spec=partition_spec(shape, schema), properties=properties)
        return cls(catalog, identifier)

    @property
    def identifier(self) -> str:
        return self._identifier

    def catalog_properties(self) -> Mapping[str, str]:
        return {"name": self.catalog.name, **self.catalog.properties}

    def table(self) -> Table:
        return self.catalog.load_table(self._identifier)

    def rows_at(self, snapshot_id: int) -> pa.Table:
        table = self.table()
        tasks = table.scan(snapshot_id=snapshot_id).plan_files()
        schema = self.trace.full_schemas[snapshot_id]
        return ArrowScan(table.metadata, table.io, schema, AlwaysTrue()).to_table(tasks)

    def append(self, files: Sequence[Sequence[Seeds]]) -> None:
        table = self.table()
        with table.transaction() as transaction:
            for rows in files:
                transaction.append(arrow(table.schema(), rows))

    @contextmanager
    def edit_schema(self) -> Iterator[PyIcebergSchemaEdits]:
        with self.table().update_schema() as update:
            yield PyIcebergSchemaEdits(update)

    @contextmanager
    def edit_partitions(self) -> Iterator[PyIcebergPartitionEdits]:
        with self.table().update_spec() as update:
            yield PyIcebergPartitionEdits(update)

    def roll_back(self, snapshot_id: int) -> None:
        self.table().manage_snapshots().rollback_to_snapshot(snapshot_id).commit()

    def set_current(self, snapshot_id: int) -> None:
        self.table().manage_snapshots().set_current_snapshot(snapshot_id).commit()

    def expire(self, snapshot_ids: Sequence[int]) -> None:
        self.table().maintenance.expire_snapshots().by_ids(list(snapshot_ids)).commit()


def delete_rows(bench: Bench, where: Condition) -> None:
    """Delete rows, copy-on-write."""
    table = bench.table()
    table.delete(condition(table.schema(), where))


def overwrite(bench: Bench, where: Condition, rows: Sequence[Seeds]) -> None:
    """Put rows in the place of others: two snapshots in one commit."""
    table = bench.table()
    table.overwrite(arrow(table.schema(), rows), overwrite_filter=condition(table.schema(), where))


def upsert(bench: Bench, column: int, rows: Sequence[Seeds]) -> None:
    """Update the rows that have a key, insert the others: up to four snapshots in one commit."""
    table = bench.table()
    schema = table.schema()
    key = pick([field.name for field in schema.fields if isinstance(field.field_type, PrimitiveType)], column)
    # PyIceberg refuses duplicate keys and null ones.
    by_key = {str(row[key]): row for row in (named_row(schema, row) for row in rows) if row[key] is not None}
    given = pa.Table.from_pylist(list(by_key.values()), schema=schema_to_pyarrow(schema))
    table.upsert(given, join_cols=[key])


def overwrite_partitions(bench: Bench, rows: Sequence[Seeds]) -> None:
    """Put rows in the place of all that stand in their partitions."""
    table = bench.table()
    table.dynamic_partition_overwrite(arrow(table.schema(), rows))


def rewrite_all(bench: Bench) -> None:
    """Overwrite the table by its own rows: nothing changes."""
    table = bench.table()
    table.overwrite(table.scan().to_arrow())


def publish_together(bench: Bench, parts: Sequence[Mapping[str, Any]]) -> None:
    """Several appends, deletes and overwrites in one commit."""
    table = bench.table()
    with table.transaction() as transaction:
        for part in parts:
            rows = arrow(table.schema(), part.get("rows", []))
            if part["do"] == "append":
                transaction.append(rows)
            elif part["do"] == "delete_rows":
                transaction.delete(condition(table.schema(), part["where"]))
            else:
                transaction.overwrite(rows, overwrite_filter=condition(table.schema(), part["where"]))


PYICEBERG_OPERATIONS: Final = {
    function.__name__: function
    for function in (delete_rows, overwrite, upsert, overwrite_partitions, rewrite_all, publish_together)
}
PyIcebergBench.operations = {**TABLE_CHANGES, **PYICEBERG_OPERATIONS}


def arrow(schema: Schema, rows: Sequence[Seeds]) -> pa.Table:
    """Rows as PyIceberg takes them."""
    return pa.Table.from_pylist([named_row(schema, row) for row in rows], schema=schema_to_pyarrow(schema))


def condition(schema: Schema, where: Condition) -> BooleanExpression:
    """A filter on one primitive column; floats are only asked whether they are null, since NaN compares oddly."""
    if not where:
        return AlwaysTrue()
    column, comparison, seed = where
    fields = [field for field in schema.fields if isinstance(field.field_type, PrimitiveType)]
    field = pick(fields, column)
    if seed is None or isinstance(field.field_type, FloatType | DoubleType):
        return IsNull(term=field.name) if comparison in ("==", "<") else Not(IsNull(term=field.name))
    return _COMPARISONS[comparison](term=field.name, value=value_of(field.field_type, seed))


def iceberg_schema(shape: TableShape) -> Schema:
    """The first schema of a table, its columns numbered from 1."""
    fields = [
        NestedField(number, column.name, type_named(column.type), required=column.required)
        for number, column in enumerate(shape.columns, 1)
    ]
    identifiers = [field.field_id for field in fields if field.name in shape.identifier_fields]
    return Schema(*fields, identifier_field_ids=identifiers)


def partition_spec(shape: TableShape, schema: Schema) -> PartitionSpec:
    """The first partition spec of a table."""
    fields = [
        PartitionField(
            schema.find_field(each.column).field_id, 1000 + index, parse_transform(each.transform), f"p{index}"
        )
        for index, each in enumerate(shape.partitioned_by)
    ]
    return PartitionSpec(*fields)
