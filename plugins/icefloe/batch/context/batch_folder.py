"""The folder of a batch: its plan, and the files that its tasks pass to one another."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Final, Literal, Self, TypeVar

from icefloe.batch.plan_document import PLAN, MapTask, Plan
from icefloe.batch.rows.file_effects import FileEffects, task_file_effects
from icefloe.batch.rows.row_reader import RowLimit, TableRowReader
from icefloe.batch.rows.row_shape import RowShape
from icefloe.documents import LEFT_OUT_IF_NONE, Document, digest_of, dump_document, fields_crc32, load_document
from icefloe.errors import TerminalError, TransientError
from icefloe.flow import FlowTask, Phase, Route
from icefloe.iceberg.catalog.confined_io import TableAccess
from icefloe.iceberg.catalog.file_io import FileIO
from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.node.machine import BatchPlace, Machine
from icefloe.shuffle.committed_output import MapOutputLog
from icefloe.storage.store import KeyMissingError, RangeMissingError, Store, join_url

__all__ = [
    "MARKER",
    "BatchFileMissingError",
    "BatchFolder",
    "FolderMarker",
    "MapInputs",
    "UnfinishedTasksError",
    "find_batch_document",
    "load_plan",
    "says_remedy",
]

MARKER: Final = "_checkpoint.json"
"""Key of the marker in the folder. The batches next to it have numbers for names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderMarker(Document):
    """``_checkpoint.json``: the checkpoint whose batches are next to it.

    The folder is named after the checkpoint's id. The checkpoint itself may be anywhere, even in another bucket.

    Attributes:
        checkpoint_url: as all URLs here, ``${ENV}`` unexpanded.
        backfill_id: None for the pipeline itself.
        changes_url: folder where batches are staged; None: ``staged/<name>`` below the storage, or none at all.
        coordination: the table that holds the created documents of folder and checkpoint; None: they are in their
            stores.
        table: address of that table, or of the table that holds the checkpoint alone; None: there is none.
    """

    version: Literal[1] = 1
    checkpoint_id: str
    checkpoint_url: str
    pipeline: str
    backfill_id: str | None = None
    changes_url: Annotated[str | None, LEFT_OUT_IF_NONE] = None
    coordination: Annotated[str | None, LEFT_OUT_IF_NONE] = None
    table: Annotated[str | None, LEFT_OUT_IF_NONE] = None

    @classmethod
    def load(cls, store: Store) -> Self | None:
        """The marker of a folder; None if it has none."""
        data, what = store.find(MARKER), f"the marker {join_url(store.url, MARKER)}"
        return None if data is None else load_document(cls, data, what=what)

    def mark(self, store: Store) -> None:
        """Writes the marker of a folder, also over one with another URL: a checkpoint may be moved."""
        data = dump_document(self)
        if store.find(MARKER) != data:
            store.put(MARKER, data)


Kind = TypeVar("Kind")


class BatchFileMissingError(TerminalError):
    """A file in a batch's folder is gone or damaged, and an earlier task of the batch makes it again.

    A retry of the task alone is no use. A run of the whole batch finds what is there and makes the rest.
    """


class UnfinishedTasksError(TransientError):
    """Tasks have not finished, or their parts are gone. Repeating commit alone does not help.

    Attributes:
        phase: runs only these tasks again; None: a Spark job met the error, or no phase mends it.
    """

    phase: Phase | None = None

    @classmethod
    def at(cls, task: FlowTask | Phase, found: str, *, then: str) -> Self:
        """The error of a task that must run again."""
        sentence = f"{found}; run again, or in Airflow clear {task} and its downstream tasks: {then}"
        return cls(sentence, phase=FlowTask(task).phase)


@dataclass(frozen=True, kw_only=True)
class BatchFolder:
    """All that a task of the batch needs, apart from the table's files and the sink.

    Attributes:
        filter_text: with ``${ENV}`` expanded; None: all rows count.
        machine: keeps map outputs if the pipeline says so, and reads those of other machines.
    """

    plan: Plan
    store: Store
    memory_bytes: int
    filter_text: str | None
    machine: Machine = field(default_factory=Machine)

    # Kept: a task asks for it several times, and it is made from the JSON of the table's schema.
    @cached_property
    def shape(self) -> RowShape:
        """Shape of the rows that are read, compared and delivered."""
        plan = self.plan
        return RowShape.of(
            TableSchema.from_json(plan.table_schema, name_mapping=plan.name_mapping),
            identity=plan.spec.identity,
            columns=plan.spec.columns,
            filter_text=self.filter_text,
            filter_as_written=plan.spec.filter,
            table=plan.table,
            hash_key=plan.spec.hash_key,
        )

    @property
    def map_outputs(self) -> MapOutputLog:
        """Commit records of the map tasks."""
        return MapOutputLog(self.store, writes_to_sink=self.plan.route is Route.INSERT_ONLY)

    def place_for(self, generation: int) -> BatchPlace | None:
        """Place on this machine for a map output; None: it goes to the store."""
        plan = self.plan
        return self.machine.place_of(f"{plan.checkpoint_id}/{plan.batch_number}", generation=generation)

    def map_task(self, map_id: int) -> MapTask:
        """The document of one map task.

        Raises:
            BatchFileMissingError: it is gone, although the plan exists.
        """
        key, place = self.plan.map_task_place(map_id)
        what = f"the map task {map_id} in {self.store.url}/{key}"
        try:
            data = self.store.get_ranges(key, [place])[0]
        except RangeMissingError:
            data = b""
        except KeyMissingError as cause:
            raise BatchFileMissingError(
                f"{what} is gone, but the plan of batch {self.plan.batch_number} of {self.plan.pipeline} names it: "
                f"{remedy(self.store)}", url=self.store.url,
            ) from cause  # fmt: skip
        if digest_of(data) != self.plan.map_task_digests[map_id]:
            raise TerminalError(
                f"{what} differs from the plan of its batch: it was damaged or replaced; {remedy(self.store)}",
                url=self.store.url,
            )
        return load_document(MapTask, data, what=what)


def load_plan(store: Store) -> Plan:
    """The plan in a batch's folder.

    Raises:
        BatchFileMissingError: there is none.
    """
    try:
        data = store.get(PLAN)
    except KeyMissingError as cause:
        raise BatchFileMissingError(
            f"there is no plan at {store.url}/{PLAN}: it was deleted, or the batch is not planned yet; clear the task "
            "plan of this DAG run with its downstream tasks, or run icefloe run, and the same range is planned again",
            url=store.url,
        ) from cause
    what = f"the plan {store.url}/{PLAN}"
    with says_remedy(store):
        plan = load_document(Plan, data, what=what)
    # One bit of a field id makes another plan of it, by which a column would come without its values.
    if plan.crc32 is not None and plan.crc32 != fields_crc32(json.loads(data)):
        raise TerminalError(f"{what} does not match its checksum: it was damaged; {remedy(store)}", url=store.url)
    return plan


def find_batch_document(kind: type[Kind], store: Store, key: str, *, what: str) -> Kind | None:
    """A document that tasks of a batch pass to one another; None if there is none."""
    with says_remedy(store):
        data = store.find(key)
        return None if data is None else load_document(kind, data, what=f"{what} {store.url}/{key}")


@contextmanager
def says_remedy(store: Store) -> Iterator[None]:
    """Adds the way out to the error of a damaged document, or of one of another release."""
    try:
        yield
    except KeyMissingError:
        raise
    except TerminalError as cause:
        raise cause.restated(f"{cause.sentence}; use that release, or {remedy(store)}") from cause


def remedy(store: Store) -> str:
    """Advice: the range is in the checkpoint, so a batch folder can be made again."""
    return f"delete everything below {store.url} and run again: the same range is planned again"


@dataclass(frozen=True, kw_only=True)
class MapInputs:
    """All that one map task reads, and its batch's folder. Tasks in other threads have inputs of their own."""

    folder: BatchFolder
    io: FileIO

    @classmethod
    def of(cls, folder: BatchFolder, access: TableAccess) -> Self:
        """The inputs of a batch's map task."""
        return cls(folder=folder, io=access.open(location=folder.plan.table_location, table=folder.plan.table))

    # Kept, because it keeps footers of files that are opened again.
    @cached_property
    def files(self) -> FileReader:
        """Reads the table's files."""
        return FileReader(io=self.io, table=self.folder.plan.table)

    def row_reader(self) -> TableRowReader:
        """Reads the table's files in the shape of the batch."""
        return TableRowReader(
            shape=self.folder.shape,
            files=self.files,
            bound=RowLimit(memory_bytes=self.folder.memory_bytes),
        )

    def file_effects(self, map_id: int) -> list[FileEffects]:
        """The files of one map task, delete files applied."""
        plan = self.folder.plan
        return task_file_effects(
            self.folder.map_task(map_id),
            equality_schemas={
                tuple(map(int, ids.split(","))): TableSchema.from_json(columns, name_mapping=plan.name_mapping)
                for ids, columns in plan.equality_schemas.items()
            },
            reader=self.files,
            memory_bytes=self.folder.memory_bytes,
        )
