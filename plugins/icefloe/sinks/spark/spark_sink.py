"""From the keys of a pipeline to the sink of their format and mode."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from icefloe.documents import Document
from icefloe.errors import NotBuiltError
from icefloe.iceberg.catalog.catalogs import load_catalog
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.sinks.sink import Sink, checked_options
from icefloe.sinks.spark.iceberg_tables import AppendSink, MergeSink, StatementSink
from icefloe.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions(Document):
    """The keys of the sink, as in docs/pipeline_keys.md."""

    mode: Literal["append", "merge", "statement"]
    table: str = ""
    format: str = "iceberg"
    options: dict[str, str | int | float | bool] = field(default_factory=dict)
    statement: str = ""
    catalog: str | dict[str, str] = field(default_factory=dict)


def open_spark_sink(
    options: Mapping[str, object],
    *,
    connection: Mapping[str, Any],
    open_store: Callable[[str], Store],  # noqa: ARG001 - nothing is kept beside the table
) -> Sink:
    """The sink of a pipeline; arguments as in `open_sink`. The connection holds the properties of the catalog."""
    checked = checked_options(SparkOptions, options, sink_type="spark")
    if checked.format != "iceberg":
        raise NotBuiltError("a sink of type spark writes to Iceberg tables so far", key="sink.format")
    catalog = load_catalog(checked.catalog, properties=connection.get("properties"))
    target = TargetTable(catalog, checked.table.partition(".")[2])
    if checked.mode == "statement":
        return StatementSink(target, checked.table, checked.statement)
    kind = MergeSink if checked.mode == "merge" else AppendSink
    return kind(target, checked.table)
