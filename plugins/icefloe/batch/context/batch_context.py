"""The context of a batch's tasks: the plan, its stores, the table's files and the sink."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Self

from icefloe.batch.batch_keys import PLAN, split_plan_url, task_key
from icefloe.batch.credentials import Credentials
from icefloe.batch.equality_schemas import equality_schemas_from_json
from icefloe.batch.fenced_store import FencedStore, taken_back_if_over
from icefloe.batch.plan_document import MapTask, Plan
from icefloe.batch.plan_format_1 import upgraded_plan
from icefloe.batch.rows.file_effects import FileRows, task_file_rows
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.batch.rows.row_shape import RowShape
from icefloe.batch.run_settings import RunSettings
from icefloe.batch.table_access import TableAccess
from icefloe.checkpoint.log import Checkpoint
from icefloe.documents import TornDocumentError, digest_of, load_document
from icefloe.errors import TerminalError
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.table import FileIO
from icefloe.shuffle.map_output_log import MapOutputLog
from icefloe.sinks.open_sink import open_sink
from icefloe.sinks.sink import Sink
from icefloe.storage.location import open_store
from icefloe.storage.requests import Requests
from icefloe.storage.store import KeyMissingError, Store

__all__ = ["BatchCommittedError", "BatchContext", "PlanMissingError", "TaskReference", "load_plan"]


class BatchCommittedError(TerminalError):
    """A task found its batch committed: another run finished it, so this one is a zombie and stops."""


class PlanMissingError(TerminalError):
    """A batch's folder lacks its plan or a part of it: it was not planned yet, is cleaned up, or was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchContext:
    """An opened batch, which the task functions work on.

    Attributes:
        store: the folder of the batch.
        checkpoint: None for a batch that delivers to no sink and leaves no trace.
        io: PyIceberg's FileIO of the table; None in phases that read no table file.
        sink: None if the changes are handed to the caller.
        settings: settings that this run takes from the pipeline file.
        requests: requests made to its stores.
    """

    plan: Plan
    store: FencedStore
    checkpoint: Checkpoint | None
    io: FileIO | None
    sink: Sink | None
    settings: RunSettings
    requests: Requests = field(default_factory=Requests)

    @property
    def shape(self) -> RowShape:
        """Shape of the rows that are read, compared and delivered."""
        plan = self.plan
        return RowShape.of(
            TableSchema.from_json(plan.table_schema, name_mapping=plan.name_mapping),
            identity=plan.identity,
            columns=plan.columns,
            filter_text=self.settings.filter,
            filter_as_written=plan.filter,
            table=plan.table,
        )

    def row_reader(self) -> TableRowReader:
        """Reads the rows of the table's files in the shape of the batch."""
        if self.io is None:
            raise TerminalError(f"batch {self.plan.batch_number} was opened without the table's files")
        return TableRowReader(shape=self.shape, io=self.io, table=self.plan.table)

    @property
    def map_outputs(self) -> MapOutputLog:
        """The commit records of the map tasks."""
        return MapOutputLog(self.store)

    def map_task(self, map_id: int) -> MapTask:
        """The document of one map task.

        Raises:
            PlanMissingError: it is gone, although the plan exists.
            TerminalError: it is not the document that the plan was made with.
        """
        digests = self.plan.map_task_digests
        digest = digests[map_id] if digests else None
        key = task_key(map_id, digest)
        try:
            data = self.store.get(key)
        except KeyMissingError as cause:
            raise PlanMissingError(
                f"the plan of batch {self.plan.batch_number} of {self.plan.pipeline} names a map task whose document "
                f"{self.store.url}/{key} is gone: {_remedy(self.store)}", url=self.store.url,
            ) from cause  # fmt: skip
        if digest is not None and digest_of(data) != digest:
            raise TerminalError(
                f"the map task {self.store.url}/{key} is not the one that the plan of its batch names: it was damaged "
                f"or replaced; {_remedy(self.store)}",
                url=self.store.url,
            )
        return load_document(MapTask, data, what=f"the map task {self.store.url}/{key}")

    def file_rows(self, map_id: int) -> list[FileRows]:
        """The files of one map task, delete files applied; raises as `map_task` and as reading a data file does."""
        if self.io is None:
            raise TerminalError(f"batch {self.plan.batch_number} was opened without the table's files")
        schemas = equality_schemas_from_json(self.plan.equality_schemas, name_mapping=self.plan.name_mapping)
        return task_file_rows(
            self.map_task(map_id),
            equality_schemas=schemas,
            io=self.io,
            table=self.plan.table,
            memory_bytes=self.settings.memory_bytes,
        )

    @property
    def is_over(self) -> bool:
        """True if the batch is committed. Nothing more is to be done, and its folder is to be empty."""
        return self.checkpoint is not None and self.checkpoint.committed(self.plan.batch_number) is not None

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Takes back the block's writes to the folder if the batch is over when the block ends."""
        with taken_back_if_over(self.store, lambda: self.is_over):
            yield

    def refuse_committed(self) -> None:
        """Stops a zombie.

        Raises:
            BatchCommittedError: the batch is committed.
        """
        if self.is_over:
            number = self.plan.batch_number
            raise BatchCommittedError(
                f"batch {number} of {self.plan.pipeline} is committed already: another run finished it, this one stops",
                batch_number=number,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReference:
    """A batch's plan URL and the secrets to open it. It travels to tasks in closures and is never stored or shown."""

    plan_url: str
    credentials: Credentials
    settings: RunSettings
    files: TableAccess | None = None

    def open(self) -> BatchContext:
        """The context of the batch in this process.

        Raises:
            PlanMissingError: there is no plan.
            TerminalError: the plan was made for other settings than this run has.
        """
        options, requests = self.credentials.storage_options, Requests()
        store = FencedStore(open_store(split_plan_url(self.plan_url), options=options, requests=requests))
        plan = load_plan(store)
        settings = self.settings
        _refuse_other_settings(plan, settings)
        io = None if self.files is None else self.files.open(plan)
        return BatchContext(
            plan=plan,
            store=store,
            checkpoint=Checkpoint(open_store(settings.checkpoint_url, options=options, requests=requests)),
            io=io,
            sink=open_sink(
                {**settings.sink, "target_file_bytes": plan.sink.get("target_file_bytes")},
                self.credentials.sink_options,
                requests,
            ),
            settings=settings,
            requests=requests,
        )

    @property
    def batch_number(self) -> int:
        """Number of the batch, from the name of its folder."""
        return int(split_plan_url(self.plan_url).rpartition("/")[2])

    @property
    def folder(self) -> Store:
        """Folder of the files that pass between the phases of the batch; known without its plan."""
        return open_store(split_plan_url(self.plan_url), options=self.credentials.storage_options)

    @property
    def batches(self) -> Store:
        """Parent folder of the batch and of the batches before and after it, by number; known without its plan."""
        folder = split_plan_url(self.plan_url).rpartition("/")[0]
        return open_store(folder, options=self.credentials.storage_options)

    @property
    def checkpoint(self) -> Checkpoint:
        """Checkpoint of the batch; known without its plan."""
        return Checkpoint(open_store(self.settings.checkpoint_url, options=self.credentials.storage_options))

    def is_over(self) -> bool:
        """True if the batch is committed; known without its plan, which is gone when it is cleaned up."""
        return self.checkpoint.committed(self.batch_number) is not None

    def with_files(self, files: TableAccess) -> Self:
        """The same reference with access to the table's files."""
        return replace(self, files=files)

    def for_tasks(self, files: TableAccess) -> Self:
        """The reference that a task needs to read and write files. It holds nothing that opens the catalog."""
        return replace(self.with_files(files), credentials=replace(self.credentials, catalog_properties={}))

    def to_environment(self) -> dict[str, str]:
        """The variables that carry credentials and settings to a driver."""
        return {**self.credentials.to_environment(), **self.settings.to_environment()}

    @classmethod
    def from_environment(cls, plan_url: str) -> Self:
        """The reference handed over by the process that started this driver."""
        return cls(
            plan_url=plan_url,
            credentials=Credentials.from_environment(os.environ),
            settings=RunSettings.from_environment(os.environ),
        )


def load_plan(store: Store) -> Plan:
    """The plan in a batch's folder.

    Raises:
        PlanMissingError: there is none.
        TerminalError: it was written by another release, or is damaged.
    """
    try:
        data = store.get(PLAN)
    except KeyMissingError as cause:
        raise PlanMissingError(
            f"there is no plan at {store.url}/{PLAN}: run the plan task of this batch again", url=store.url
        ) from cause
    try:
        return load_document(Plan, upgraded_plan(data), what=f"the plan {store.url}/{PLAN}")
    except TornDocumentError:
        raise
    except TerminalError as cause:
        raise TerminalError(f"{cause.sentence}; use that release, or {_remedy(store)}", **cause.facts) from cause


def _refuse_other_settings(plan: Plan, settings: RunSettings) -> None:
    """Stops if ``${ENV}`` in the settings means something else here than when the batch was planned."""
    if plan.settings_digest is not None and settings.digest != plan.settings_digest:
        raise TerminalError(
            f"filter or sink of pipeline {plan.pipeline} do not mean what they did when batch {plan.batch_number} was "
            "planned: an environment variable in them has another value here; give it the same value on every worker",
            batch_number=plan.batch_number,
        )


def _remedy(store: Store) -> str:
    """Advice for a damaged batch folder. It can be made again, because the range is in the checkpoint."""
    return f"delete everything below {store.url} and run again: the same range is planned again"
