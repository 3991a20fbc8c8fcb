"""From the keys of a pipeline to the sink of their format and mode."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from icefloe.documents import Document
from icefloe.iceberg.catalog.catalogs import load_catalog
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.sinks.sink import Sink, checked_options
from icefloe.sinks.spark.iceberg_tables import AppendSink, MergeSink, StatementSink
from icefloe.sinks.spark.other_targets import DeltaSink, SourceSink, Target
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
    """The sink of a pipeline; arguments as in `open_sink`.

    The connection holds the properties of the catalog, or login and password of a database.
    """
    checked = checked_options(SparkOptions, options, sink_type="spark")
    if checked.format != "iceberg":
        target = Target(
            format=checked.format,
            name=checked.table,
            mode=checked.mode,
            statement=checked.statement,
            options={**_credentials(connection), **{key: _text(value) for key, value in checked.options.items()}},
        )
        return DeltaSink(target) if checked.format == "delta" else SourceSink(target)
    catalog = load_catalog(checked.catalog, properties=connection.get("properties"))
    table = TargetTable(catalog, checked.table.partition(".")[2])
    if checked.mode == "statement":
        return StatementSink(table, checked.table, checked.statement)
    kind = MergeSink if checked.mode == "merge" else AppendSink
    return kind(table, checked.table)


def _credentials(connection: Mapping[str, Any]) -> dict[str, str]:
    """Of a database."""
    found = {"user": connection.get("login"), "password": connection.get("password")}
    return {name: value for name, value in found.items() if value}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
