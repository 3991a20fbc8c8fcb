"""The places of a run: its stores, the folders of its changes, and the sink that they are delivered to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, partial
from typing import Protocol

from icefloe.batch.run_settings import Credentials, RunSettings
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.log import Checkpoint
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.table import Table
from icefloe.shuffle.map_output import new_attempt
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.sink import Sink, open_sink
from icefloe.storage.location import open_store
from icefloe.storage.requests import Requests
from icefloe.storage.store import Store


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

    open_store: Callable[..., Store] = open_store
    load_table: TableLoader = load_table
    new_name: Callable[[], str] = new_attempt
    new_key: Callable[[], int] = RowHashes.new_key


@dataclass(frozen=True, kw_only=True)
class Places:
    """The places that credentials and settings lead to. What was opened stays in its process.

    Attributes:
        settings: of a pipeline, or of a backfill of it.
        requests: counts those to the stores; None: nobody asks.
    """

    credentials: Credentials
    settings: RunSettings
    surroundings: Surroundings = field(default_factory=Surroundings, repr=False)
    requests: Requests | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def open_storage(self, url: str) -> Store:
        """A place of the pipeline's storage."""
        return self.surroundings.open_store(url, options=self.credentials.storage_options, requests=self.requests)

    # Kept, as the folders are: each opening of a remote store connects anew and asks for the machine's identity again.
    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint of the pipeline or of the backfill."""
        return Checkpoint(self.open_storage(self.settings.checkpoint_url))

    @cached_property
    def folder_of_changes(self) -> ChangeFiles:
        """The folder to which tasks write changes: the files sink, or the place where batches are staged."""
        return self.folder_with_files_of(self.settings.changes_folder.target_file_bytes)

    def folder_with_files_of(self, target_file_bytes: int | None) -> ChangeFiles:
        """That folder for a batch, which keeps the size of files that it was opened with.

        A staged batch is part of the storage, a files sink has its own credentials.
        """
        is_staged, path = self.settings.pipeline.delivers, self.settings.changes_folder.path
        options = self.credentials.storage_options if is_staged else self.credentials.sink_options
        store = self.surroundings.open_store(path, options=options, requests=self.requests)
        return ChangeFiles(store, target_file_bytes=target_file_bytes)

    @cached_property
    def delivered_folder(self) -> ChangeFiles | None:
        """The folder in which readers count staged batches; None if these go to another sink, or to none."""
        sink = self.settings.pipeline.sink
        if not self.settings.delivers or sink.type != "files":
            return None
        store = self.surroundings.open_store(sink.path, options=self.credentials.sink_options)
        return ChangeFiles(store, target_file_bytes=sink.target_file_bytes)

    @contextmanager
    def delivery_sink(self) -> Iterator[Sink | None]:
        """The sink of staged batches, open until the block ends; None if the files are the sink."""
        if not self.settings.delivers:
            yield None
            return
        with closing(self._opened_sink()) as sink:
            yield sink

    def _opened_sink(self) -> Sink:
        if self.delivered_folder is not None:
            return self.delivered_folder.as_sink()
        return open_sink(
            asdict(self.settings.pipeline.sink),
            connection=self.credentials.sink_connection,
            open_store=partial(self.surroundings.open_store, options=self.credentials.storage_options),
        )
