"""Python rows to Java records and back, all at once: through a small Parquet file, not one py4j call per value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.java_gateway import JavaPackage
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyspark.sql import SparkSession

from support.spark.row_counts import Row, rows_of
from support.spark.spark_table import SparkTable

__all__ = ["JavaRows", "JavaStates", "arrow_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRows:
    """Moves rows between Arrow and lists of ``org.apache.iceberg.data.Record``, and calls what py4j cannot."""

    jvm: Any
    gateway: Any
    loader: Any

    @classmethod
    def of(cls, spark: SparkSession, java_table: Any) -> Self:
        """Through the session's JVM, with the class loader that Iceberg's runtime came in by."""
        gateway = spark.sparkContext._gateway
        return cls(jvm=_Package(spark._jvm), gateway=gateway, loader=java_table.getClass().getClassLoader())

    @property
    def iceberg(self) -> Any:
        """The package org.apache.iceberg."""
        return self.jvm.org.apache.iceberg

    def records(self, rows: pa.Table, java_schema: Any) -> Any:
        """A Java list of the rows as records of the schema, matched by the field ids of the Arrow schema."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            pq.write_table(rows, path)
            parquet = self.iceberg.FileFormat.PARQUET
            source = self.iceberg.Files.localInput(str(path))
            registry = self.iceberg.formats.FormatModelRegistry
            iterable = registry.readBuilder(parquet, self.named("data.Record"), source).project(java_schema).build()
            return self.listed(iterable)

    def rows(self, records: Any, java_schema: Any) -> pa.Table:
        """The records of a Java iterable, which is closed, as Arrow."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            target = self.iceberg.encryption.EncryptionUtil.plainAsEncryptedOutput(
                self.iceberg.Files.localOutput(str(path))
            )
            builder = self.iceberg.formats.FormatModelRegistry.dataWriteBuilder(
                self.iceberg.FileFormat.PARQUET, self.named("data.Record"), target
            )
            self.write(builder.schema(java_schema).spec(self.iceberg.PartitionSpec.unpartitioned()).build(), records)
            records.close()
            # Without rows Iceberg writes no file.
            return pq.read_table(path) if path.exists() else pa.table({})

    def listed(self, iterable: Any) -> Any:
        """The items of a Java iterable, which is closed, as a Java list."""
        found = self.iceberg.relocated.com.google.common.collect.Lists.newArrayList(iterable)
        iterable.close()
        return found

    def write(self, writer: Any, records: Any) -> None:
        """Write a list of records with a ``FileWriter`` and close it: py4j takes ``write(Object)`` for any argument."""
        methods = self.jvm.java.lang.invoke
        signature = methods.MethodType.methodType(self.jvm.java.lang.Void.TYPE, self.named("java.lang.Iterable"))
        write = methods.MethodHandles.publicLookup().findVirtual(self.named("io.FileWriter"), "write", signature)
        write.invokeWithArguments(self.jvm.java.util.List.of(writer, records))
        writer.close()

    def function(self, owner: Any, method: str, *, declared_by: str, result: str, argument: str) -> Any:
        """A ``java.util.function.Function`` that calls a public method of an object; names as `named` takes them."""
        methods = self.jvm.java.lang.invoke
        signature = methods.MethodType.methodType(self.named(result), self.named(argument))
        lookup = methods.MethodHandles.publicLookup()
        handle = lookup.findVirtual(self.named(declared_by), method, signature).bindTo(owner)
        proxies = methods.MethodHandleProxies
        return proxies.asInterfaceInstance(self.named("java.util.function.Function"), handle)

    def named(self, name: str) -> Any:
        """A Java class: by its full name under ``java.``, else by its name inside org.apache.iceberg."""
        full = name if name.startswith("java.") else f"org.apache.iceberg.{name}"
        return self.jvm.java.lang.Class.forName(full, True, self.loader)

    def ints(self, values: Sequence[int]) -> Any:
        """A Java ``int[]``."""
        array = self.gateway.new_array(self.gateway.jvm.int, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array

    def strings(self, values: Iterable[str]) -> Any:
        """A Java list of strings."""
        found = self.jvm.java.util.ArrayList()
        for value in values:
            found.add(value)
        return found


class _Package:
    """A Java package or the JVM, which remembers what was looked up: py4j asks Java each time."""

    def __init__(self, package: Any) -> None:
        self._package = package

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._package, name)
        found = _Package(found) if isinstance(found, JavaPackage) else found
        setattr(self, name, found)
        return found


def arrow_rows(schema: Schema, columns: Sequence[str], rows: Iterable[Sequence[Any] | Mapping[str, Any]]) -> pa.Table:
    """Rows as an Arrow table with the schema's field ids.

    Args:
        schema: which columns there are; those that a row does not name are null.
        columns: what the values of a row given as a sequence are; dotted names are fields of structs.
        rows: sequences of values, or mappings by column.
    """
    named = [row if isinstance(row, Mapping) else dict(zip(columns, row, strict=True)) for row in rows]
    target = schema_to_pyarrow(schema)
    stored = pa.schema([field.with_type(_stored(field.type)) for field in target])
    table = pa.Table.from_pylist([_bytes(_nested(row)) for row in named], schema=stored)
    columns = [_typed(column.combine_chunks(), field.type) for column, field in zip(table.columns, target, strict=True)]
    return pa.Table.from_arrays(columns, schema=target)


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type with bytes in the place of uuids, of which Arrow makes no arrays below the top."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_stored(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_stored(kind.key_type), kind.item_field.with_type(_stored(kind.item_type)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_stored(kind.value_type)))
    return kind


def _typed(array: Any, kind: pa.DataType) -> Any:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array)
    if pa.types.is_struct(kind):
        children = [_typed(array.field(place), field.type) for place, field in enumerate(kind)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_map(kind):
        keys, items = _typed(array.keys, kind.key_type), _typed(array.items, kind.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=array.is_null())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = _typed(array.values, kind.value_type)
        found = pa.ListArray.from_arrays(array.offsets, values, mask=array.is_null())
        return (
            found
            if found.type == kind
            else pa.LargeListArray.from_arrays(array.offsets.cast(pa.int64()), values, type=kind, mask=array.is_null())
        )
    return array


def _bytes(value: Any) -> Any:
    """The value with bytes in the place of uuids."""
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, dict):
        return {name: _bytes(child) for name, child in value.items()}
    return type(value)(map(_bytes, value)) if isinstance(value, list | tuple) else value


def _nested(row: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in row.items():
        *parents, leaf = name.split(".")
        inner = nested
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[leaf] = value
    return nested


class JavaStates:
    """The contents of one table: its files, the deletes in force on them, its rows."""

    def __init__(self, table: SparkTable) -> None:
        self.table = table
        self._java = table.java_table()
        self._rows = JavaRows.of(table.lab.spark, self._java)
        self._iceberg = self._rows.iceberg
        # Part of the names of files, which so sort in the order of writing.
        self._numbers = count(100_000)

    @property
    def java(self) -> Any:
        """Java's table as it is now."""
        self._java.refresh()
        return self._java

    def scan_tasks(self, branch: str | None = None) -> list[Any]:
        """Java's scan tasks of main or a branch by location: a data file, and the delete files in force on it."""
        scan = self.java.newScan()
        if branch is not None:
            scan = scan.useRef(branch)
        return sorted(self._rows.listed(scan.planFiles()), key=lambda task: str(task.file().location()))

    def rows_at(self, snapshot_id: int | None, *, schema_of: int | None = None) -> Counter[Row]:
        """The result of `SparkTable.rows_at`, read by Iceberg's generic reader, much faster.

        Args:
            snapshot_id: None is the state before the first.
            schema_of: the snapshot by whose schema to read; default: the same.
        """
        if snapshot_id is None:
            return Counter()
        java = self.java
        schema = self._iceberg.util.SnapshotUtil.schemaFor(java, schema_of or snapshot_id)
        scan = self._iceberg.data.IcebergGenerics.read(java).useSnapshot(snapshot_id).project(schema)
        return rows_of(self._rows.rows(scan.build(), schema))

    def type(self, name: str) -> Any:
        """A primitive type: ``long``, ``decimal(10, 2)``."""
        return self._iceberg.types.Types.fromPrimitiveString(name)

    def term(self, transform: str, *arguments: Any) -> Any:
        """A partition term: ``term("bucket", "id", 4)``, ``term("day", "at")``."""
        return getattr(self._iceberg.expressions.Expressions, transform)(*arguments)
