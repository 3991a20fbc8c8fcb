"""The places of a run; references to a batch, which travel between processes; a batch that others finished."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Self

from icefloe.batch.context.batch_folder import BatchFolder, find_batch_document, load_plan
from icefloe.batch.context.running_batch import FencedStore, RunningBatch
from icefloe.batch.plan_document import Plan, begun_key, delivery_key, split_plan_url
from icefloe.batch.report import BatchDelivery, BatchReport
from icefloe.batch.run_settings import Credentials, RunSettings
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import BatchOutcome
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.catalog.confined_io import TableAccess
from icefloe.iceberg.table import Table
from icefloe.node.machine import Machine
from icefloe.pipeline.model import Pipeline
from icefloe.shuffle.map_output import new_attempt
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import BatchSummary
from icefloe.sinks.sink import Sink, open_sink
from icefloe.storage.location import open_store
from icefloe.storage.requests import Requests
from icefloe.storage.store import Store

__all__ = ["BatchFinished", "BatchReference", "ends_well_if_finished", "load_delivery", "open_table", "table_files"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Everything outside of a process that decides what its run does. A simulation replaces all four."""

    # Times in documents are for people: no decision depends on the clock of a machine.
    open_store: Callable[..., Store] = open_store
    load_table: Callable[..., Table] = load_table
    new_name: Callable[[], str] = new_attempt  # a name that no other process has, on any machine
    new_key: Callable[[], int] = RowHashes.new_key  # key of a batch's row hashes, which nobody can know before


@dataclass(frozen=True, kw_only=True)
class Places:
    """The places that credentials and settings lead to. What was opened stays in its process."""

    credentials: Credentials
    settings: RunSettings  # of a pipeline, or of a backfill of it
    surroundings: Surroundings = field(default_factory=Surroundings, repr=False)
    requests: Requests | None = field(default=None, repr=False, compare=False)  # to the stores; None: nobody asks

    def __getstate__(self) -> dict[str, object]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def open_storage(self, url: str) -> Store:
        """A place of the pipeline's storage."""
        return self.surroundings.open_store(url, options=self.credentials.storage_options, requests=self.requests)

    def refuse_local(self, sink: Sink) -> None:
        """Raise if Spark writes a sink, and no phase runs in it."""
        if sink.needs_spark and self.settings.pipeline.engine == "local":
            raise TerminalError(
                f"Spark writes {sink.url}, and no phase runs there with engine: local: set engine: spark or auto, and "
                "the table's catalog in spark.conf",
                key="engine",
            )

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
        """That folder for a batch, which keeps the size of files that it was opened with."""
        # A staged batch is part of the storage; a files sink has its own credentials.
        is_staged, path = self.settings.pipeline.delivers, self.settings.changes_folder.path
        options = self.credentials.storage_options if is_staged else self.credentials.sink_options
        store = self.surroundings.open_store(path, options=options, requests=self.requests)
        for_spark = self.settings.pipeline.sink.has_catalog or self.settings.pipeline.sink.needs_spark
        return ChangeFiles(store, target_file_bytes=target_file_bytes, for_spark=for_spark)

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
        if self.delivered_folder is not None:
            opened = self.delivered_folder.as_sink(**self.settings.pipeline.sink.form)
        else:
            opened = open_sink(
                asdict(self.settings.pipeline.sink),
                connection=self.credentials.sink_connection,
                open_store=partial(self.surroundings.open_store, options=self.credentials.storage_options),
            )
        with closing(opened) as sink:
            yield sink

    def origin(self, checkpoint_id: str) -> Origin:
        """Who delivers to the sink."""
        pipeline = self.settings.pipeline
        return Origin(owner=checkpoint_id, pipeline=pipeline.name, table=pipeline.table)

    def empty_batch(self, number: int, snapshot_id: int | None) -> BatchSummary:
        """A batch without changes, whose range is empty."""
        pipeline = self.settings.pipeline
        return BatchSummary.empty(pipeline.name, pipeline.table, batch_number=number, snapshot_id=snapshot_id)


@dataclass(frozen=True, kw_only=True)
class BatchReference(Places):
    """A batch's plan URL, and the secrets and settings that open it.

    Attributes:
        plan: None: whoever opens the batch reads it.
    """

    plan_url: str
    plan: Plan | None = field(default=None, repr=False)

    def for_tasks(self, plan: Plan) -> Self:
        """The reference that tasks need to read and write files: no request for the plan, no way to the catalog."""
        return replace(self, plan=plan, credentials=replace(self.credentials, catalog_properties={}))

    def open(self) -> RunningBatch:
        """The batch in this process.

        Raises:
            BatchFileMissingError: there is no plan.
            TerminalError: the plan was made for other settings than this run has.
        """
        requests = Requests()
        places = replace(self, requests=requests)
        store = places.fenced_folder()
        plan = self.plan or load_plan(store)
        if plan.settings_digest != self.settings.digest:
            raise TerminalError(
                f"keys of pipeline {plan.pipeline} that decide its changes, such as filter, sink, columns or "
                f"changelog.path, have changed since batch {plan.batch_number} was planned: the file was edited, or an "
                "environment variable in it has another value here; restore what it was until the batch is done, with "
                "the same value on every worker",
                batch_number=plan.batch_number,
            )
        pipeline = self.settings.pipeline
        return RunningBatch(
            folder=BatchFolder(
                plan=plan,
                store=store,
                memory_bytes=pipeline.shuffle.memory_bytes,
                filter_text=pipeline.filter,
                machine=Machine(keeps_outputs=pipeline.shuffle.transfer == "nodes"),
            ),
            written=store,
            checkpoint=places.checkpoint,
            folder_of_changes=places.folder_with_files_of(plan.spec.target_file_bytes),
            settings=self.settings,
            requests=requests,
        )

    @property
    def batch_number(self) -> int:
        """Number from the name of the batch's folder."""
        return int(split_plan_url(self.plan_url).rpartition("/")[2])

    @property
    def folder(self) -> Store:
        """Folder of the files that pass between the phases; known without the plan."""
        return self.open_storage(split_plan_url(self.plan_url))

    @property
    def batches(self) -> Store:
        """Parent folder of this and other batches, by number; known without the plan."""
        return self.open_storage(split_plan_url(self.plan_url).rpartition("/")[0])

    def fenced_folder(self) -> FencedStore:
        """That folder, which remembers what this process writes."""
        return FencedStore(self.batches, str(self.batch_number))

    @contextmanager
    def delivery_sink(self) -> Iterator[Sink]:
        """The sink that the batch is delivered to, open until the block ends. `ValueError` if there is none."""
        with super().delivery_sink() as sink:
            if sink is None:
                raise ValueError(f"batch {self.batch_number} is delivered to no sink: its files are its changes")
            yield sink

    def is_over(self) -> bool:
        """True if the batch is committed; known without its plan, which cleanup deletes."""
        return self.checkpoint.committed(self.batch_number) is not None

    @property
    def has_begun_delivery(self) -> bool:
        """True if the sink may have a part of the batch, wherever its changes are staged."""
        return self.folder.size(begun_key()) is not None

    @property
    def delivery(self) -> BatchDelivery | None:
        """The delivery of the batch; None if it is not visible at its sink as a whole yet."""
        return load_delivery(self.folder)

    def to_environment(self) -> dict[str, str]:
        """The variables that carry credentials and settings to a driver."""
        return {**self.credentials.to_environment(), **self.settings.to_environment()}

    @classmethod
    def from_environment(cls, plan_url: str) -> Self:
        """The reference that the parent process handed over."""
        return cls(
            plan_url=plan_url,
            credentials=Credentials.from_environment(os.environ),
            settings=RunSettings.from_environment(os.environ),
        )


def load_delivery(store: Store) -> BatchDelivery | None:
    """The delivery of a batch; None if it is not visible at its sink as a whole yet."""
    return find_batch_document(BatchDelivery, store, delivery_key(None), what="the delivery")


def open_table(pipeline: Pipeline, credentials: Credentials, surroundings: Surroundings | None = None) -> Table:
    """Opens the table of an expanded pipeline by the given credentials, or by PyIceberg's own configuration."""
    with pipeline.with_lines():
        return (surroundings or Surroundings()).load_table(
            pipeline.catalog,
            pipeline.table,
            properties=credentials.catalog_properties or None,
            allowed_locations=pipeline.allowed_locations,
        )


def table_files(reference: BatchReference) -> TableAccess:
    """Access to the table's files, with the credentials that the catalog vends. Never stored.

    Credentials and catalog are those of the reference, so that a catalog that moved and a location that was added help
    an open batch.
    """
    return TableAccess.of(open_table(reference.settings.pipeline, reference.credentials, reference.surroundings))


class BatchFinished(Exception):  # noqa: N818 - no error: nothing is left to do
    """Another run has committed the batch meanwhile. Not an `IcefloeError`, so that nobody reports it as trouble."""

    def __init__(self, reference: BatchReference) -> None:
        super().__init__(reference.batch_number)
        self._reference = reference

    @property
    def report(self) -> BatchReport:
        """Report of the run that committed the batch."""
        batch = self._reference
        return BatchReport.load(batch.checkpoint, batch.batch_number, backfill_id=batch.settings.backfill_id)

    @property
    def was_abandoned(self) -> bool:
        """True if somebody gave the batch up."""
        commit = self._reference.checkpoint.committed(self._reference.batch_number)
        return commit is not None and commit.outcome is BatchOutcome.ABANDONED


@contextmanager
def ends_well_if_finished(reference: BatchReference) -> Iterator[None]:
    """Turns any error inside into `BatchFinished` if the batch is committed by then.

    A late run may find its plan deleted, its parts in place or its batch closed. These are traces of the faster run.

    Raises:
        BatchFinished: there is nothing left to do of the batch. Any other error is the original one, or a
            `TransientError` if the checkpoint does not answer.
    """
    try:
        yield
    except Exception as error:
        if not _is_over(reference, error):
            raise
        logger.info("batch %d was finished by another run, this one ends: %s", reference.batch_number, error)
        raise BatchFinished(reference) from None


def _is_over(reference: BatchReference, error: Exception) -> bool:
    try:
        return reference.is_over()
    except TransientError as unanswered:
        # "There is no plan" ends a run for good, and may only mean that a faster run has cleaned up. The next try asks
        # again.
        if isinstance(error, TerminalError):
            raise unanswered from error
        logger.warning("could not find out if batch %d is finished: %s", reference.batch_number, unanswered)
    except IcefloeError as damage:
        logger.warning("could not find out if batch %d is finished: %s", reference.batch_number, damage)
    return False
