"""The sinks of a pipeline, opened."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Protocol

from icefloe.batch.run_settings import Credentials, RunSettings
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.table import Table
from icefloe.pipeline.model import Pipeline
from icefloe.shuffle.map_output import new_attempt
from icefloe.sinks.change_files import ChangeFiles, FilesDelivery
from icefloe.sinks.sink import Sink, open_sink
from icefloe.storage.location import StoreOpener, open_store
from icefloe.storage.requests import Requests

__all__ = ["Surroundings", "delivered_folder", "delivery_sink", "folder_of_changes", "sink_of_pipeline"]


class TableLoader(Protocol):
    """See `load_table`."""

    def __call__(
        self,
        catalog: str | Mapping[str, str],
        table: str,
        *,
        properties: Mapping[str, str] | None = None,
        allowed_locations: Sequence[str] = (),
    ) -> Table:
        """The table as its catalog has it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Everything outside of a process that decides what its run does.

    A simulation that replaces these four decides every step of a run. Times in documents are for people: no decision
    depends on the clock of a machine.

    Attributes:
        new_name: returns a name that no other process has, on any machine.
        new_key: returns the key of a batch's row hashes, which nobody can know before.
    """

    open_store: StoreOpener = open_store
    load_table: TableLoader = load_table
    new_name: Callable[[], str] = new_attempt
    new_key: Callable[[], int] = RowHashes.new_key


def folder_of_changes(
    settings: RunSettings,
    credentials: Credentials,
    surroundings: Surroundings,
    *,
    requests: Requests | None = None,
    spec: BatchSpec | None = None,
) -> ChangeFiles:
    """The folder to which tasks write changes: the files sink, or the place where batches are staged.

    Args:
        credentials: a staged batch is part of the storage, a files sink has its own.
        spec: of an open batch, which keeps its size of files.
    """
    folder = settings.changes_folder
    options = credentials.storage_options if settings.pipeline.delivers else credentials.sink_options
    store = surroundings.open_store(folder.path, options=options, requests=requests)
    size_bytes = folder.target_file_bytes if spec is None else spec.target_file_bytes
    return ChangeFiles(store, target_file_bytes=size_bytes)


def delivered_folder(settings: RunSettings, credentials: Credentials, surroundings: Surroundings) -> ChangeFiles | None:
    """The folder in which readers count staged batches; None if these go to another sink, or to none."""
    sink = settings.pipeline.sink
    if not settings.delivers or sink.type != "files":
        return None
    return ChangeFiles(
        surroundings.open_store(sink.path, options=credentials.sink_options), target_file_bytes=sink.target_file_bytes
    )


@contextmanager
def delivery_sink(settings: RunSettings, credentials: Credentials, surroundings: Surroundings) -> Iterator[Sink | None]:
    """The sink of staged batches, open until the block ends; None if the files are the sink."""
    if not settings.delivers:
        yield None
        return
    with closing(_opened(settings, credentials, surroundings)) as sink:
        yield sink


def sink_of_pipeline(pipeline: Pipeline, credentials: Credentials) -> AbstractContextManager[Sink | None]:
    """The sink as the pipeline file says, open for a block; None if the files are the sink."""
    return delivery_sink(RunSettings.of(pipeline), credentials, Surroundings())


def _opened(settings: RunSettings, credentials: Credentials, surroundings: Surroundings) -> Sink:
    folder = delivered_folder(settings, credentials, surroundings)
    if folder is not None:
        return FilesDelivery(folder)
    return open_sink(
        asdict(settings.pipeline.sink),
        connection=credentials.sink_connection,
        open_store=partial(surroundings.open_store, options=credentials.storage_options),
    )
