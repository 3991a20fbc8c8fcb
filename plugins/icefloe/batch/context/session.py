"""A pipeline, opened, before there is a batch."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self, TypeVar

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.sinks import Surroundings, delivered_folder, delivery_sink, folder_of_changes
from icefloe.batch.plan_document import plan_url
from icefloe.batch.run_settings import Credentials, RunSettings
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import Cursor, OffsetRecord, Writer
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.table import Table
from icefloe.pipeline.model import JSON, Pipeline, result_configuration, with_lines
from icefloe.pipeline.pipeline_file import check_pipeline
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.sink import Sink
from icefloe.storage.keys import join_url
from icefloe.storage.requests import Requests
from icefloe.storage.store import Store

AnyCursor = TypeVar("AnyCursor", Cursor, Cursor | None)

__all__ = ["PipelineSession", "batch_url", "open_table"]


@dataclass(frozen=True, kw_only=True)
class PipelineSession:
    """An opened pipeline, from which batches are planned. A session of a backfill differs only in its places.

    Attributes:
        pipeline: with ``${ENV}`` expanded.
        table: as loaded when the session was opened.
        backfill_id: None for the pipeline itself.
        takes_over: True if the writer becomes the owner of the checkpoint.
    """

    pipeline: Pipeline
    credentials: Credentials
    table: Table
    backfill_id: str | None = None
    writer: Writer = field(default_factory=Writer)
    takes_over: bool = False
    requests: Requests = field(default_factory=Requests, compare=False)
    surroundings: Surroundings = field(default_factory=Surroundings, repr=False)

    @classmethod
    def open(
        cls,
        pipeline: Pipeline,
        *,
        credentials: Credentials,
        environ: Mapping[str, str],
        writer: Writer | None = None,
        takes_over: bool = False,
        surroundings: Surroundings | None = None,
    ) -> Self:
        """Loads the table of a pipeline that this release can run."""
        expanded, surroundings = pipeline.expanded(environ), surroundings or Surroundings()
        table = open_table(expanded, credentials, surroundings)
        check_pipeline(expanded, table.location())
        return cls(
            pipeline=expanded,
            credentials=credentials,
            table=table,
            writer=writer or Writer(),
            takes_over=takes_over,
            surroundings=surroundings,
        )

    def with_fresh_table(self) -> Self:
        """The session with the table as it is now.

        Check a cursor only against a table that was loaded after it. An older table lacks snapshots that other runs
        have delivered since, as if they had expired.
        """
        return replace(self, table=open_table(self.pipeline, self.credentials, self.surroundings))

    def with_cursor(self, cursor: AnyCursor) -> tuple[Self, AnyCursor]:
        """The session, and a cursor by its snapshot's id in that session's table; see `LoadedTable.found`."""
        if cursor is None or cursor.snapshot is None:
            return self, cursor
        table, snapshot_id = LoadedTable(self.table).found(cursor.snapshot)
        if snapshot_id == cursor.snapshot_id:
            return self, cursor
        # The rest of a load needs the snapshot itself, so it counts as expired then.
        session = self if cursor.load_part is not None else replace(self, table=table)
        return session, replace(cursor, snapshot_id=snapshot_id, snapshot=None)

    def for_backfill(self, backfill_id: str) -> Self:
        """The pipeline with a checkpoint and an output of the backfill's own."""
        return replace(self, backfill_id=backfill_id)

    # Kept: every place of the session is looked up in them.
    @cached_property
    def settings(self) -> RunSettings:
        """Settings that tasks take from the pipeline file."""
        return RunSettings.of(self.pipeline, backfill_id=self.backfill_id, writer=self.writer)

    # Kept: a batch asks for it several times, and each time the pipeline file would be checked again.
    @cached_property
    def result_configuration(self) -> Mapping[str, JSON]:
        """Settings that change the result of a batch, by dotted key, as checkpoint and batch record them."""
        return result_configuration(self.pipeline)

    # Kept, as the sink is: each opening of a remote store connects anew and asks for the machine's identity again.
    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint of the pipeline or of the backfill."""
        return Checkpoint(self.open_storage(self.settings.checkpoint_url))

    @cached_property
    def folder_of_changes(self) -> ChangeFiles:
        """The folder to which tasks write changes: of the sink, or on the way to another one."""
        return folder_of_changes(self.settings, self.credentials, self.surroundings, requests=self.requests)

    @cached_property
    def delivered_folder(self) -> ChangeFiles | None:
        """The folder in which readers count staged batches; None if these go to another sink, or to none."""
        return delivered_folder(self.settings, self.credentials, self.surroundings)

    @property
    def counted_folder(self) -> ChangeFiles | None:
        """The folder in which readers count batches; None if the sink is no folder of files."""
        return self.delivered_folder if self.pipeline.delivers else self.folder_of_changes

    @property
    def numbered_folders(self) -> tuple[ChangeFiles, ...]:
        """The folders in which each batch has its number, even if it has no changes."""
        staged, delivered = self.folder_of_changes, self.delivered_folder
        return (staged,) if delivered is None else (staged, delivered)

    def origin(self, checkpoint_id: str) -> Origin:
        """Who delivers to the sink."""
        return Origin(
            owner=checkpoint_id,
            pipeline=self.pipeline.name,
            table=self.pipeline.table,
        )

    def delivery_sink(self) -> AbstractContextManager[Sink | None]:
        """The sink of staged batches, open until the block ends; None: the files are the sink."""
        return delivery_sink(self.settings, self.credentials, self.surroundings)

    def folder_of(self, offset: OffsetRecord) -> Store:
        """Folder of the files that pass between the phases."""
        return self.open_storage(batch_url(self.pipeline, offset))

    def reference(self, offset: OffsetRecord) -> BatchReference:
        """The reference for tasks of a batch."""
        return BatchReference(
            plan_url=plan_url(batch_url(self.pipeline, offset)),
            credentials=self.credentials,
            settings=self.settings,
            surroundings=self.surroundings,
        )

    def open_storage(self, url: str) -> Store:
        """A place of the pipeline's storage."""
        return self.surroundings.open_store(url, options=self.credentials.storage_options, requests=self.requests)


def batch_url(pipeline: Pipeline, offset: OffsetRecord) -> str:
    """Folder of the files that a batch passes between its phases.

    Named after the checkpoint, because pipelines of the same name share nothing.
    """
    return join_url(pipeline.shuffle_url, f"{offset.checkpoint_id}/{offset.batch_number}")


def open_table(pipeline: Pipeline, credentials: Credentials, surroundings: Surroundings | None = None) -> Table:
    """Opens the table of an expanded pipeline by the given credentials, or by PyIceberg's own configuration."""
    with with_lines(pipeline):
        return (surroundings or Surroundings()).load_table(
            pipeline.catalog,
            pipeline.table,
            properties=credentials.catalog_properties or None,
            allowed_locations=pipeline.allowed_locations,
        )
