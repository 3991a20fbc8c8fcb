"""From the keys of a pipeline to the sink of their mode."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from icefloe.documents import Document
from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.catalogs import load_catalog
from icefloe.sinks.iceberg.changelog import ChangelogSink
from icefloe.sinks.iceberg.mirror import MirrorSink
from icefloe.sinks.iceberg.row_history import HistorySink
from icefloe.sinks.iceberg.table_sink import writes_snapshots
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.sinks.sink import Sink, checked_options, open_sink
from icefloe.storage.store import Store

_SPARK_MODES: Final = {"changelog": "append", "mirror": "merge"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergOptions(Document):
    """The keys of the sink, as in docs/pipeline_keys.md."""

    table: str
    mode: Literal["changelog", "mirror", "history"]
    catalog: str | dict[str, str]
    identity: Literal["key", "rows"] = "key"
    track: tuple[str, ...] = ()
    untracked: Annotated[tuple[str, ...], Field(alias="except")] = ()
    order_by: tuple[str, ...] = ()


def open_iceberg_sink(
    options: Mapping[str, object],
    *,
    connection: Mapping[str, Any],
    open_store: Callable[[str], Store],
) -> Sink:
    """The sink of a pipeline; arguments as in `open_sink`. The connection holds the properties of the catalog.

    Of a table that PyIceberg cannot write it is the sink of type spark.
    """
    checked = checked_options(IcebergOptions, options, sink_type="iceberg")
    catalog = load_catalog(checked.catalog, properties=connection.get("properties"))
    target = TargetTable(catalog, checked.table)
    if checked.mode == "history":
        return HistorySink(target, track=checked.track, untracked=checked.untracked)
    table = target.find()
    if table is not None and not writes_snapshots(table.metadata):
        if checked.order_by:
            raise TerminalError(
                f"sink.order_by does not fit {target.url}, whose format version only Spark writes, as changes are "
                "staged: remove it, or name a table of format version 2",
                key="sink.order_by",
            )
        mode, name = _SPARK_MODES[checked.mode], f"{catalog.name}.{checked.table}"
        by_spark = {"mode": mode, "table": name, "catalog": checked.catalog}
        sink = open_sink({"type": "spark", "options": by_spark}, connection=connection, open_store=open_store)
        sink.takes_whole_rows = checked.identity == "rows"
        return sink
    if checked.mode == "mirror":
        return MirrorSink(target, takes_whole_rows=checked.identity == "rows")
    changelog = ChangelogSink(target)
    changelog.order_by = checked.order_by
    return changelog
