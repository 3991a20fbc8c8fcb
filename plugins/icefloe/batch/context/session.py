"""A pipeline, opened: its table, its checkpoint and its sink, before there is a batch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from icefloe.batch.batch_keys import plan_url
from icefloe.batch.context.folder_marker import FolderMarker
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.surroundings import Surroundings
from icefloe.batch.context.table_files import open_table
from icefloe.batch.credentials import Credentials
from icefloe.batch.run_settings import RunSettings, checkpoint_url_of
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import OffsetRecord, Writer
from icefloe.iceberg.table import Table
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.open_sink import open_sink
from icefloe.sinks.sink import Sink
from icefloe.storage.keys import join_url
from icefloe.storage.requests import Requests
from icefloe.storage.store import Store

__all__ = ["PipelineSession", "batch_url"]


@dataclass(frozen=True, kw_only=True)
class PipelineSession:
    """An opened pipeline, from which batches are planned. A session of a backfill differs only in its places.

    Attributes:
        pipeline: with ``${ENV}`` expanded.
        table: as loaded when the session was opened.
        backfill_id: None for the pipeline itself.
        writer: who runs the pipeline here.
        takes_over: True if the writer becomes the owner of the checkpoint, whoever was the owner.
        requests: requests made to its stores.
        surroundings: stores and tables around the run.
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
        """Loads the table of a pipeline.

        Raises:
            PipelineFileError: an environment variable is not set.
            TerminalError: no such catalog or table.
            TransientError: the catalog did not answer.
        """
        expanded, surroundings = pipeline.expanded(environ), surroundings or Surroundings()
        return cls(
            pipeline=expanded,
            credentials=credentials,
            table=_load(expanded, credentials, surroundings),
            writer=writer or Writer(),
            takes_over=takes_over,
            surroundings=surroundings,
        )

    def with_fresh_table(self) -> Self:
        """The same session with the table as it is now.

        Check a cursor only against a table that was loaded after it. An older table lacks snapshots that other runs
        have delivered since, and these would look as if they had expired.
        """
        return replace(self, table=_load(self.pipeline, self.credentials, self.surroundings))

    def for_backfill(self, backfill_id: str) -> Self:
        """The same pipeline with a checkpoint and an output of the backfill's own."""
        return replace(self, backfill_id=backfill_id)

    # Kept: every place of the session is looked up in them.
    @cached_property
    def settings(self) -> RunSettings:
        """Settings that tasks of this run take from the pipeline file."""
        return RunSettings.of(self.pipeline, backfill_id=self.backfill_id, writer=self.writer)

    @property
    def checkpoint_url(self) -> str:
        """URL of the checkpoint of the pipeline or of the backfill."""
        return self.settings.checkpoint_url

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint of the pipeline or of the backfill."""
        return Checkpoint(self.open_storage(self.checkpoint_url))

    @property
    def sink_settings(self) -> Mapping[str, Any]:
        """Settings of the sink. The output of a backfill is below the output path of the pipeline."""
        return self.settings.sink

    @property
    def sink(self) -> Sink:
        """The sink, opened."""
        return open_sink(
            self.sink_settings,
            self.credentials.sink_options,
            self.requests,
            open_store=self.surroundings.open_store,
        )

    def folder_url(self, checkpoint_id: str) -> str:
        """Folder of the files that the batches of a checkpoint pass between their phases."""
        return join_url(self.pipeline.shuffle_url, checkpoint_id)

    def marker(self, checkpoint_id: str) -> FolderMarker:
        """The marker of that folder."""
        return FolderMarker(
            checkpoint_id=checkpoint_id,
            checkpoint_url=checkpoint_url_of(self.pipeline.as_written, self.backfill_id),
            pipeline=self.pipeline.name,
            backfill_id=self.backfill_id,
        )

    def batch_url(self, offset: OffsetRecord) -> str:
        """Folder of the files that a batch passes between its phases."""
        return batch_url(self.pipeline, offset, backfill_id=self.backfill_id)

    def reference(self, offset: OffsetRecord) -> BatchReference:
        """The reference that tasks of a batch are given."""
        return BatchReference(
            plan_url=plan_url(self.batch_url(offset)),
            credentials=self.credentials,
            settings=self.settings,
            surroundings=self.surroundings,
        )

    def open_storage(self, url: str) -> Store:
        """A place of the pipeline's storage."""
        return self.surroundings.open_store(url, options=self.credentials.storage_options, requests=self.requests)


def batch_url(pipeline: Pipeline, offset: OffsetRecord, *, backfill_id: str | None) -> str:
    """Folder of the files that a batch passes between its phases, as in format 1 if the batch was opened in format 1.

    It is named after the checkpoint, not after the pipeline alone: pipelines of the same name share nothing.
    """
    if offset.checkpoint_id is not None:
        return join_url(pipeline.shuffle_url, f"{offset.checkpoint_id}/{offset.batch_number}")
    place = "" if backfill_id is None else f"backfills/{backfill_id}/"
    return join_url(pipeline.shuffle_url, f"{place}{offset.batch_number}")


def _load(pipeline: Pipeline, credentials: Credentials, surroundings: Surroundings) -> Table:
    """The table of an expanded pipeline."""
    return open_table(
        pipeline.catalog,
        pipeline.table,
        credentials=credentials,
        environ={},
        allowed_locations=pipeline.allowed_locations,
        surroundings=surroundings,
    )
