"""References to a batch, which travel between processes, never stored or shown; a batch that others finished."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Self

from icefloe.batch.context.batch_folder import BatchFolder, load_batch_document, load_plan
from icefloe.batch.context.places import Places
from icefloe.batch.context.running_batch import FencedStore, RunningBatch
from icefloe.batch.plan_document import Plan, begun_key, delivery_key, split_plan_url
from icefloe.batch.report import BatchDelivery, BatchReport
from icefloe.batch.run_settings import (
    Credentials,
    RunSettings,
)
from icefloe.checkpoint.records import BatchOutcome
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.iceberg.catalog.confined_io import TableAccess
from icefloe.node.machine import Machine
from icefloe.sinks.sink import Sink
from icefloe.storage.requests import Requests
from icefloe.storage.store import KeyMissingError, Store

__all__ = [
    "BatchFinished",
    "BatchReference",
    "ends_well_if_finished",
    "load_delivery",
    "table_files",
]

logger = logging.getLogger(__name__)


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
        store = FencedStore(places.folder)
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
    try:
        return load_batch_document(BatchDelivery, store, delivery_key(None), what="the delivery")
    except KeyMissingError:
        return None


def table_files(plan: Plan, reference: BatchReference) -> TableAccess:
    """Access to the table's files, with the credentials that the catalog vends. Never stored.

    Credentials and catalog are those of the reference, so that a catalog that moved and a location that was added help
    an open batch.
    """
    pipeline = reference.settings.pipeline
    table = reference.surroundings.load_table(
        pipeline.catalog,
        plan.table,
        properties=reference.credentials.catalog_properties or None,
        allowed_locations=pipeline.allowed_locations,
    )
    return TableAccess.of(table)


class BatchFinished(Exception):  # noqa: N818 - no error: nothing is left to do
    """Another run has committed the batch meanwhile. Not an `IcefloeError`, so that nobody reports it as trouble."""

    def __init__(self, reference: BatchReference) -> None:
        super().__init__(reference.batch_number)
        self._reference = reference

    @property
    def report(self) -> BatchReport:
        """Report of the run that committed the batch."""
        return BatchReport.load(self._reference.checkpoint, self._reference.batch_number)

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
