"""From settings to the sink that tasks write to; `open_delivery_sink` opens the others."""

from collections.abc import Mapping
from typing import Any

from icefloe.errors import NotBuiltError
from icefloe.sinks.files import FilesSink
from icefloe.sinks.sink import Sink
from icefloe.storage.location import StoreOpener, open_store
from icefloe.storage.requests import Requests

__all__ = ["open_sink"]


def open_sink(
    settings: Mapping[str, Any],
    options: Mapping[str, str],
    requests: Requests | None = None,
    *,
    open_store: StoreOpener = open_store,
) -> Sink:
    """The sink that a plan or a pipeline describes.

    Args:
        settings: the pipeline's ``sink``, ``${ENV}`` expanded; for a backfill its ``path`` is the backfill's own.
        options: credentials of the destination.
        requests: counts the requests to its store.
        open_store: opens its store.

    Raises:
        NotBuiltError: this release does not have the type or the format.
    """
    if settings["type"] != "files":
        raise NotBuiltError(f"sink.type {settings['type']} is not built yet: use files", sink_type=settings["type"])
    if settings.get("format", "parquet") != "parquet":
        raise NotBuiltError(
            f"sink.format {settings['format']} is not built yet: use parquet", format=settings["format"]
        )
    store = open_store(settings["path"], options=options, requests=requests)
    return FilesSink(store, target_file_bytes=settings.get("target_file_bytes"))
