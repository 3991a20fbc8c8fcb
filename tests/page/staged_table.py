"""A table of a catalog on SQLite, with rows enough to look at."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import TruncateTransform
from pyiceberg.types import LongType, NestedField, StringType

__all__ = ["StagedTable", "catalog_properties"]

_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True), NestedField(2, "note", StringType()), identifier_field_ids=[1]
)
_BY_HUNDRED = PartitionSpec(
    PartitionField(source_id=1, field_id=1000, transform=TruncateTransform(100), name="hundred")
)
_ARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("note", pa.string())])


def catalog_properties(folder: Path) -> dict[str, str]:
    """The properties that open the catalog."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


@dataclass(slots=True)
class StagedTable:
    """Rows 0, 1, 2, ... with a note each."""

    catalog: SqlCatalog
    name: str
    table: Table
    rows: int = field(default=0)
    edits: int = field(default=0)

    @classmethod
    def create(cls, folder: Path, name: str, *, is_partitioned: bool = False) -> Self:
        folder.mkdir(parents=True, exist_ok=True)
        catalog = SqlCatalog("lakehouse", **catalog_properties(folder))
        catalog.create_namespace_if_not_exists(name.partition(".")[0])
        spec = _BY_HUNDRED if is_partitioned else UNPARTITIONED_PARTITION_SPEC
        return cls(catalog, name, catalog.create_table(name, schema=_SCHEMA, partition_spec=spec))

    def append(self, amount: int) -> None:
        """One commit that adds rows."""
        self.table.append(self._made(range(self.rows, self.rows + amount)))
        self.rows += amount

    def update(self, amount: int) -> None:
        """A copy-on-write update of rows in the middle."""
        self.edits += 1
        start = max(0, self.rows // 3)
        stop = min(self.rows, start + amount)
        reached = And(GreaterThanOrEqual(term="id", value=start), LessThan(term="id", value=stop))
        self.table.overwrite(self._made(range(start, stop)), overwrite_filter=reached)

    def recreate(self) -> None:
        """Drops the table and makes another one of the same name."""
        self.catalog.drop_table(self.name)
        self.table = self.catalog.create_table(self.name, schema=_SCHEMA)
        self.rows = 0

    def _made(self, ids: range) -> pa.Table:
        notes = [f"{self.name} {number} edited {self.edits} times {number * 2654435761 % 2**32:x}" for number in ids]
        return pa.table([pa.array(ids, pa.int64()), pa.array(notes)], schema=_ARROW)
