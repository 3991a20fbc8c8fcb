"""The states of a table as Iceberg's Java reader has them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import count
from typing import Any

from support.spark.java_rows import JavaRows
from support.spark.row_counts import Row, rows_of
from support.spark.spark_table import SparkTable

__all__ = ["JavaStates", "LiveFile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A data file of a table state and the delete files in force on it."""

    data_file: Any
    delete_files: tuple[Any, ...]


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

    def live_files(self, *, branch: str | None = None, snapshot_id: int | None = None) -> list[LiveFile]:
        """The data files of a state (default: main's) with the delete files in force, by location."""
        java = self.java
        scan = java.newScan()
        if snapshot_id is not None:
            scan = scan.useSnapshot(snapshot_id)
        elif branch is not None:
            scan = scan.useRef(branch)
        planned = self._rows.listed(scan.planFiles())
        live = [LiveFile(data_file=task.file(), delete_files=tuple(task.deletes())) for task in planned]
        return sorted(live, key=lambda file: str(file.data_file.location()))

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

    def literal(self, value: Any) -> Any:
        """A literal, such as the default of a column."""
        return self._iceberg.expressions.Literal.of(value)

    def term(self, transform: str, *arguments: Any) -> Any:
        """A partition term: ``term("bucket", "id", 4)``, ``term("day", "at")``."""
        return getattr(self._iceberg.expressions.Expressions, transform)(*arguments)
