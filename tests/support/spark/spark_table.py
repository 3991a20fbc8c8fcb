"""A table that Spark writes and both sides read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.table import Table

from support.spark.row_counts import Row, rows_of

if TYPE_CHECKING:
    from support.spark.spark_lab import SparkLab

__all__ = ["CreateTable", "SparkTable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTable:
    """One table of the shared catalog: ``name`` is what Spark's SQL calls it, ``identifier`` what PyIceberg does."""

    lab: SparkLab
    name: str
    identifier: str

    def sql(self, statement: str) -> pa.Table:
        """Run one SQL statement in which ``{table}`` stands for this table; its rows."""
        return self.lab.sql(statement.replace("{table}", self.name))

    def append(self, rows: pa.Table) -> None:
        """Append Arrow rows through Spark: for values that are hard to write in SQL."""
        self.lab.spark.createDataFrame(rows).writeTo(self.name).append()

    def load(self) -> Table:
        """The table as PyIceberg sees it now."""
        return self.lab.catalog.load_table(self.identifier)

    def java_table(self) -> Any:
        """The table as Iceberg's Java API has it: for commits that SQL cannot make."""
        spark = self.lab.spark
        return spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, self.name)

    def snapshot_ids(self) -> list[int]:
        """The lineage of the current snapshot, oldest first."""
        metadata = self.load().metadata
        lineage = []
        snapshot = metadata.current_snapshot()
        while snapshot is not None:
            lineage.append(snapshot.snapshot_id)
            snapshot = metadata.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None
        return lineage[::-1]

    def rows_at(self, snapshot_id: int | None) -> Counter[Row]:
        """The count of each row of the table at a snapshot, as Spark reads it; before the first: None."""
        if snapshot_id is None:
            return Counter()
        return rows_of(self.sql(f"SELECT * FROM {{table}} VERSION AS OF {snapshot_id}"))

    def changelog(
        self,
        *,
        after_snapshot_id: int | None = None,
        up_to_snapshot_id: int | None = None,
        identifier_columns: Sequence[str] = (),
        net: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> pa.Table:
        """The result of Iceberg's ``create_changelog_view``, with update images if there is an identity.

        Columns: the table's, then ``_change_type``, ``_change_ordinal`` and ``_commit_snapshot_id``. It refuses tables
        with delete files. ``options`` are the view's own, such as ``start-timestamp``.
        """
        bounds = {"start-snapshot-id": after_snapshot_id, "end-snapshot-id": up_to_snapshot_id, **(options or {})}
        bounded = ", ".join(f"'{key}', '{value}'" for key, value in bounds.items() if value is not None)
        identity = ", ".join(f"'{column}'" for column in identifier_columns)
        arguments = [
            f"table => '{self.identifier}'",
            "changelog_view => 'changelog'",
            f"options => map({bounded})",
            *([f"identifier_columns => array({identity})", "compute_updates => true"] if identity else []),
            *(["net_changes => true"] if net else []),
        ]
        self.lab.sql(f"CALL {self.name.split('.')[0]}.system.create_changelog_view({', '.join(arguments)})")
        return self.lab.sql("SELECT * FROM changelog")


CreateTable = Callable[..., SparkTable]
"""Makes a table of its own for a test; arguments of `SparkLab.create_table`."""
