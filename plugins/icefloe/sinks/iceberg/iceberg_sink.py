"""From the keys of a pipeline to the sink of their mode."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from icefloe.documents import Document
from icefloe.iceberg.catalog.catalogs import load_catalog
from icefloe.sinks.iceberg.changelog import ChangelogSink
from icefloe.sinks.iceberg.mirror import MirrorSink
from icefloe.sinks.iceberg.row_history import HistorySink
from icefloe.sinks.iceberg.table_sink import TableSink
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.sinks.sink import checked_options
from icefloe.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergOptions(Document):
    """The keys of the sink, as in docs/pipeline_keys.md."""

    table: str
    mode: Literal["changelog", "mirror", "history"]
    catalog: str | dict[str, str]
    identity: Literal["key", "rows"] = "key"
    track: tuple[str, ...] = ()
    untracked: Annotated[tuple[str, ...], Field(alias="except")] = ()


def open_iceberg_sink(
    options: Mapping[str, object],
    *,
    connection: Mapping[str, Any],
    open_store: Callable[[str], Store],  # noqa: ARG001 - nothing is kept beside the table
) -> TableSink:
    """The sink of a pipeline; arguments as in `open_sink`. The connection holds the properties of the catalog."""
    checked = checked_options(IcebergOptions, options, sink_type="iceberg")
    catalog = load_catalog(checked.catalog, properties=connection.get("properties"))
    target = TargetTable(catalog, checked.table)
    if checked.mode == "history":
        return HistorySink(target, track=checked.track, untracked=checked.untracked)
    if checked.mode == "mirror":
        return MirrorSink(target, takes_whole_rows=checked.identity == "rows")
    return ChangelogSink(target)
