"""``spark.read.format("icefloe")``: a data source in Python, which Spark has since version 4."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

# Loaded by `register` and by workers of Spark only, whose class is the base.
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition  # noqa: TID253

from icefloe.batch.changelog_scan import ChangelogScan
from icefloe.engines.local import LocalEngine
from icefloe.engines.spark_reader.spark_rows import rows_for_spark, spark_schema
from icefloe.errors import UsageError
from icefloe.flow import Route
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.redacted_output import outgoing_errors, outgoing_logs

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_CATALOG: Final = "catalog."
_PLACE: Final = ("table", "path", "catalog")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("after_snapshot_id", "up_to_snapshot_id"), int),
    **dict.fromkeys(("from_snapshot_id_exclusive", "to_snapshot_id_inclusive"), int),
    **dict.fromkeys(("after_timestamp", "up_to_timestamp"), datetime.fromisoformat),
    **dict.fromkeys(("identifier_columns", "columns"), _names),
    **dict.fromkeys(("changes", "commit_groups", "filter", "branch"), str),
}


class ChangesSource(DataSource):  # type: ignore[misc]
    """Changes of a range, planned when Spark asks for the schema, so that all tasks see one state of the table."""

    @classmethod
    def name(cls) -> str:
        """Of the format."""
        return "icefloe"

    @cached_property
    def scan(self) -> ChangelogScan:
        """The range of the options. It travels with this object."""
        options = {key.lower(): value for key, value in self.options.items()}
        table = options.get("table", options.get("path"))
        if table is None:
            raise UsageError('name the table: spark.read.format("icefloe").load("namespace.name")')
        properties = {key.removeprefix(_CATALOG): value for key, value in options.items() if key.startswith(_CATALOG)}
        given: dict[str, Any] = {}
        for key, value in options.items():
            if key in _PLACE or key.startswith(_CATALOG):
                continue
            if key not in _OPTIONS:
                raise UsageError(f"option {key!r} is unknown: expected {', '.join([*_PLACE, *_OPTIONS])}")
            try:
                given[key] = _OPTIONS[key](value)
            except ValueError as cause:
                raise UsageError(f"option {key} has a value of another form: {value!r}") from cause
        name = options.get("catalog", "default")
        loaded = load_table({"name": name, **properties} if properties else name, table)
        return ChangelogScan.requested(loaded, cores=1, **given)

    def schema(self) -> "StructType":
        """Of the changes."""
        with outgoing_errors():
            return spark_schema(self.scan.schema)

    def reader(self, schema: "StructType") -> "ChangesReader":
        """The tasks of the range; Spark checks that rows have the schema."""
        del schema
        with outgoing_errors():
            return ChangesReader(self.scan)


class ChangesReader(DataSourceReader):  # type: ignore[misc]
    """Reads files in tasks of their own. A range that removes rows is one task: sources cannot shuffle."""

    def __init__(self, scan: ChangelogScan) -> None:
        self._scan = scan

    def partitions(self) -> Sequence[InputPartition]:
        """Map tasks, or the whole range."""
        plan = self._scan.planned.plan
        if plan.route is Route.INSERT_ONLY:
            return [InputPartition(map_id) for map_id in self._scan.tasks.map_ids]
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of a partition."""
        with outgoing_logs(), outgoing_errors():
            scan = self._scan
            whole = partition.value is None
            yield from rows_for_spark(
                scan.read(LocalEngine(threads=1)) if whole else scan.tasks.inserted(partition.value)
            )
