"""A pipeline, opened, before there is a batch."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self, TypeVar

from icefloe.batch.context.references import BatchReference, Places, Surroundings, open_table
from icefloe.batch.plan_document import PLAN
from icefloe.batch.run_settings import Credentials, RunSettings
from icefloe.checkpoint.records import Cursor, OffsetRecord, Writer
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.pipeline_file import check_pipeline
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.sink import Sink
from icefloe.storage.requests import Requests
from icefloe.storage.store import join_url

AnyCursor = TypeVar("AnyCursor", Cursor, Cursor | None)

__all__ = ["PipelinePlaces", "PipelineSession", "batch_url"]


@dataclass(frozen=True, kw_only=True)
class PipelinePlaces(Places):
    """A pipeline, or a backfill of it, with its places. Catalog and table are not asked, as they may be down.

    Attributes:
        pipeline: with ``${ENV}`` expanded.
        backfill_id: None for the pipeline itself.
        takes_over: True if the writer becomes the owner of the checkpoint.
    """

    pipeline: Pipeline
    backfill_id: str | None = None
    writer: Writer = field(default_factory=Writer)
    takes_over: bool = False
    settings: RunSettings = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        settings = RunSettings(pipeline=self.pipeline, backfill_id=self.backfill_id, writer=self.writer)
        object.__setattr__(self, "settings", settings)

    @property
    def counted_folder(self) -> ChangeFiles | None:
        """The folder in which readers count batches; None if the sink is no folder of files."""
        return self.delivered_folder if self.pipeline.delivers else self.folder_of_changes

    @property
    def numbered_folders(self) -> tuple[ChangeFiles, ...]:
        """The folders in which each batch has its number, even if it has no changes."""
        staged, delivered = self.folder_of_changes, self.delivered_folder
        return (staged,) if delivered is None else (staged, delivered)

    @contextmanager
    def marked_sink(self) -> Iterator[Sink | None]:
        """The sink whose marks of deleted rows are the pipeline's, open until the block ends; None: there are none.

        Raises:
            TerminalError: checkpoint or sink is another's.
        """
        self.checkpoint.refuse_other(self.writer)
        checkpoint_id = self.checkpoint.look().checkpoint_id
        with self.delivery_sink() as sink:
            if sink is None or not sink.keeps_deletions or checkpoint_id is None:
                yield None
                return
            sink.claim(self.origin(checkpoint_id), only_looks=True)
            yield sink

    def reference(self, offset: OffsetRecord) -> BatchReference:
        """The reference for tasks of a batch."""
        folder_url = batch_url(self.pipeline, offset)
        return BatchReference(
            plan_url=join_url(folder_url, PLAN),
            credentials=self.credentials,
            settings=self.settings,
            surroundings=self.surroundings,
        )


@dataclass(frozen=True, kw_only=True)
class PipelineSession(PipelinePlaces):
    """An opened pipeline, from which batches are planned. A session of a backfill differs only in its places.

    Attributes:
        table: as loaded when the session was opened.
    """

    table: LoadedTable = field(repr=False)
    requests: Requests = field(default_factory=Requests, repr=False, compare=False)

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
        table = LoadedTable(open_table(expanded, credentials, surroundings))
        check_pipeline(expanded, table.metadata.location)
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
        table = open_table(self.pipeline, self.credentials, self.surroundings)
        return replace(self, table=LoadedTable(table))

    @contextmanager
    def delivery_sink(self) -> Iterator[Sink | None]:
        """The same, which knows the table that it must not write."""
        with super().delivery_sink() as sink:
            if sink is not None:
                sink.source_uuid = self.table.uuid
            yield sink

    # Kept: a batch asks for it several times, and each time the pipeline file would be checked again.
    @cached_property
    def result_configuration(self) -> Mapping[str, object]:
        """Settings that change the result of a batch, by dotted key, as checkpoint and batch record them."""
        return self.pipeline.result_configuration


def batch_url(pipeline: Pipeline, offset: OffsetRecord) -> str:
    """Folder of the files that a batch passes between its phases.

    Named after the checkpoint, because pipelines of the same name share nothing.
    """
    return join_url(pipeline.shuffle_url, f"{offset.checkpoint_id}/{offset.batch_number}")
