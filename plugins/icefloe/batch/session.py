"""A pipeline, opened: its table, its checkpoint and its sink, before there is a batch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from icefloe.batch.credentials import Credentials
from icefloe.batch.table_files import open_table
from icefloe.checkpoint.log import Checkpoint
from icefloe.iceberg.table import Table
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.open_sink import open_sink
from icefloe.sinks.sink import Sink
from icefloe.storage.location import open_store
from icefloe.storage.requests import Requests
from icefloe.storage.store import Store

__all__ = ["PipelineSession"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSession:
    """What planning a batch needs. A session of a backfill differs by its places alone.

    Attributes:
        pipeline: with ``${ENV}`` expanded.
        table: as loaded when the session was opened.
        backfill_id: None for the pipeline itself.
        requests: what was asked of its stores.
    """

    pipeline: Pipeline
    credentials: Credentials
    table: Table
    backfill_id: str | None = None
    requests: Requests = field(default_factory=Requests, compare=False)

    @classmethod
    def open(cls, pipeline: Pipeline, *, credentials: Credentials, environ: Mapping[str, str]) -> Self:
        """Loads the table of a pipeline.

        Raises:
            PipelineFileError: an environment variable is not set.
            TerminalError: no such catalog or table.
            TransientError: the catalog did not answer.
        """
        expanded = pipeline.expanded(environ)
        table = open_table(
            expanded.catalog,
            expanded.table,
            credentials=credentials,
            environ={},
            allowed_locations=expanded.allowed_locations,
        )
        return cls(pipeline=expanded, credentials=credentials, table=table)

    def for_backfill(self, backfill_id: str) -> Self:
        """The same pipeline with a checkpoint and an output of the backfill's own."""
        return replace(self, backfill_id=backfill_id)

    @property
    def checkpoint_url(self) -> str:
        """Where the checkpoint of the pipeline or of the backfill is kept."""
        suffix = "" if self.backfill_id is None else f"/backfills/{self.backfill_id}"
        return self.pipeline.checkpoint_url + suffix

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint of the pipeline or of the backfill."""
        return Checkpoint(self.open_storage(self.checkpoint_url))

    @property
    def sink_settings(self) -> dict[str, Any]:
        """The sink's settings; a backfill's output stands below the path of the pipeline's."""
        settings = asdict(self.pipeline.sink)
        if self.backfill_id is not None:
            settings["path"] = f"{settings['path']}/_backfills/{self.backfill_id}"
        return settings

    @property
    def sink(self) -> Sink:
        """The sink, opened."""
        return open_sink(self.sink_settings, self.credentials.sink_options, self.requests)

    def batch_url(self, batch_number: int) -> str:
        """The folder of what a batch passes between its phases."""
        place = "" if self.backfill_id is None else f"/backfills/{self.backfill_id}"
        return f"{self.pipeline.shuffle_url}{place}/{batch_number}"

    def open_storage(self, url: str) -> Store:
        """A place of the pipeline's storage."""
        return open_store(url, options=self.credentials.storage_options, requests=self.requests)
