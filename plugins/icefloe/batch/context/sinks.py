"""The sinks of a pipeline, opened: the folder of its changes, and the sink that staged batches are delivered to."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

from icefloe.batch.context.surroundings import Surroundings
from icefloe.batch.credentials import Credentials
from icefloe.batch.run_settings import RunSettings
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.files_delivery import FilesDelivery
from icefloe.sinks.sink import Sink, open_sink
from icefloe.storage.requests import Requests

__all__ = ["delivered_folder", "delivery_sink", "folder_of_changes", "sink_of_pipeline"]


def folder_of_changes(
    settings: RunSettings,
    credentials: Credentials,
    surroundings: Surroundings,
    *,
    requests: Requests | None = None,
    recorded: Mapping[str, object] = MappingProxyType({}),
) -> ChangeFiles:
    """The folder to which tasks write changes: the files sink, or the place where batches are staged.

    Args:
        settings: settings of the run.
        credentials: a staged batch is part of the storage, a files sink has its own.
        surroundings: opens the folder.
        requests: counts the requests to it.
        recorded: settings that a batch has recorded; they come before those of the run.
    """
    places: dict[str, Any] = {**settings.sink, **recorded}
    options = credentials.storage_options if settings.is_staged else credentials.sink_options
    store = surroundings.open_store(places["path"], options=options, requests=requests)
    return ChangeFiles(store, target_file_bytes=places["target_file_bytes"])


def delivered_folder(settings: RunSettings, credentials: Credentials, surroundings: Surroundings) -> ChangeFiles | None:
    """The folder in which readers count batches that were staged; None if these go to another sink, or to none."""
    if settings.delivery.get("type") != "files":
        return None
    store = surroundings.open_store(settings.delivery["path"], options=credentials.sink_options)
    return ChangeFiles(store, target_file_bytes=settings.delivery["target_file_bytes"])


@contextmanager
def delivery_sink(settings: RunSettings, credentials: Credentials, surroundings: Surroundings) -> Iterator[Sink | None]:
    """The sink that staged batches are delivered to, open until the block ends; None if the files are the sink."""
    if not settings.delivery:
        yield None
        return
    with closing(_opened(settings, credentials, surroundings)) as sink:
        yield sink


def sink_of_pipeline(pipeline: Pipeline, credentials: Credentials) -> AbstractContextManager[Sink | None]:
    """The sink of a pipeline as its file says, open for a block; None if the files are the sink."""
    return delivery_sink(RunSettings.of(pipeline), credentials, Surroundings())


def _opened(settings: RunSettings, credentials: Credentials, surroundings: Surroundings) -> Sink:
    folder = delivered_folder(settings, credentials, surroundings)
    if folder is not None:
        return FilesDelivery(folder)
    return open_sink(
        settings.delivery,
        connection=credentials.sink_connection,
        open_store=partial(surroundings.open_store, options=credentials.storage_options),
    )
