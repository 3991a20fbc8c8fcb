"""Batches that are committed, delivered once more: to a new index, a lost topic, or any other sink."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from icefloe.batch.context.sinks import delivered_folder, delivery_sink, folder_of_changes
from icefloe.batch.context.surroundings import Surroundings
from icefloe.batch.credentials import Credentials
from icefloe.batch.deliver.deliver_part import delivered_part
from icefloe.batch.deliver.output_mode import OutputMode
from icefloe.batch.deliver.proven_batch import committed_batch, staged_parts
from icefloe.batch.operations.kept_changes import KeptChanges, UndeliverableBatchError
from icefloe.batch.operations.kept_letters import KeptLetters
from icefloe.batch.run_settings import RunSettings
from icefloe.batch.task_outcome import Engine
from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import TerminalError, UsageError
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.manifest import Manifest
from icefloe.sinks.sink import PartDelivery, Sink

__all__ = ["Redelivery"]

logger = logging.getLogger(__name__)


class UndeliverableBackfillError(TerminalError):
    """A backfill has delivered nothing: it is open, it was abandoned, or nobody ever began it."""

    backfill_id: str


class OwnSinkError(TerminalError):
    """A backfill is to be delivered to the sink of its pipeline, which has later batches already."""

    backfill_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Redelivery:
    """Committed batches of a pipeline, and the sink that they are to be delivered to. No catalog is asked.

    Attributes:
        pipeline: whose batches they are, expanded.
        target: the same pipeline with the sink that takes them.
        credentials: of the pipeline's storage and of the sink.
        checkpoint: of the pipeline, or of the backfill.
        backfill_id: the backfill whose batch is delivered; None: batches of the pipeline itself.
    """

    pipeline: Pipeline
    target: Pipeline
    credentials: Credentials
    checkpoint: Checkpoint
    backfill_id: str | None = None
    surroundings: Surroundings = field(default_factory=Surroundings, repr=False)

    def batches(self, asked: Sequence[int] | None) -> Sequence[int] | None:
        """Numbers of the batches that are meant: those asked for, or the one batch of the backfill.

        Raises:
            UsageError: numbers were given for a backfill.
            UndeliverableBackfillError: the backfill has delivered nothing.
        """
        if self.backfill_id is None:
            return asked
        if asked is not None:
            raise UsageError("--batches names batches of the pipeline itself: leave them out, or leave out --backfill")
        number = self.checkpoint.look().backfilled_number
        if number is None:
            raise UndeliverableBackfillError(
                f"backfill {self.backfill_id} of {self.pipeline.name} has delivered nothing, so it cannot be delivered "
                "once more: start its range again, or correct the ID",
                backfill_id=self.backfill_id,
            )
        return [number]

    def deliver(self, number: int, engine: Engine) -> list[PartDelivery]:
        """Delivers one batch; repeating it delivers nothing twice.

        Args:
            number: of the batch.
            engine: delivers its parts, in threads of this process.

        Raises:
            OwnSinkError: it is the batch of a backfill, and the sink is the pipeline's.
            IcefloeError: of the first part that failed.
        """
        kept = self.kept
        manifest = kept.manifest(number)
        settings = RunSettings.of(self.target)
        staged = list(staged_parts(kept.folder, manifest, memory_bytes=settings.memory_bytes))
        output = OutputMode.of(manifest.batch, staged, settings)
        batch = self._batch(number, kept, manifest, output)
        parts = [output.reduced(part) for part in staged]
        with self._open_sink() as sink:
            self._refuse_own_sink(sink, batch)
            sink.claim(batch.origin)
            begun = sink.begin(batch)
            if sink.commits_once:
                deliveries = [sink.deliver(batch, begun, StagedPart.whole(parts))]
            else:
                deliveries = engine.map(partial(self._deliver_part, batch, begun, parts), range(len(parts)))
            sink.finish(batch, begun, deliveries)
        logger.info("batch %d of %s: delivered once more", number, self.pipeline.name)
        return deliveries

    @property
    def kept(self) -> KeptChanges:
        """The changes of these batches, in the folder where they are kept."""
        folder = folder_of_changes(
            RunSettings.of(self.pipeline, backfill_id=self.backfill_id), self.credentials, self.surroundings
        )
        counted = None
        if self.backfill_id is None:
            counted = delivered_folder(RunSettings.of(self.target), self.credentials, self.surroundings)
        return KeptChanges(pipeline=self.pipeline, checkpoint=self.checkpoint, folder=folder, counted_folder=counted)

    @property
    def letters(self) -> KeptLetters:
        """The dead letters of these batches, which the sink keeps."""
        return KeptLetters(
            pipeline=self.pipeline,
            checkpoint=self.checkpoint,
            settings=RunSettings.of(self.target),
            open_sink=self._open_sink,
        )

    def url(self, *, is_checked: bool = True) -> str:
        """Address of the sink; unless told otherwise, it is proven that the sink can be written."""
        with self._open_sink() as sink:
            if is_checked:
                sink.check()
            return sink.url

    def _refuse_own_sink(self, sink: Sink, batch: ProvenBatch) -> None:
        """Stops a backfill before the sink of its pipeline says that another pipeline owns it.

        The changes of its range are older than what the sink holds, and nothing says which of them still count.
        """
        if self.backfill_id is None:
            return
        try:
            sink.refuse_other_owner(batch.origin)
        except TerminalError as error:
            if not self._owns(sink):
                raise
            after, name = batch.after_snapshot_id, self.pipeline.name
            reset = f"icefloe reset {name} loads the table again"
            again = f"icefloe set-cursor {name} --snapshot-id {after} delivers that range and all commits since again"
            raise OwnSinkError(
                f"{sink.url} belongs to {name} itself and has later batches, so it takes no backfill: "
                f"{reset if after is None else f'{again}, {reset}'}; --sink FILE names another sink for the backfill",
                backfill_id=self.backfill_id,
            ) from error

    def _owns(self, sink: Sink) -> bool:
        """True if the sink belongs to the pipeline of the backfill."""
        store = self.surroundings.open_store(self.pipeline.checkpoint_url, options=self.credentials.storage_options)
        owner = Checkpoint(store).look().checkpoint_id
        if owner is None:
            return False
        try:
            sink.refuse_other_owner(Origin(owner=owner, pipeline=self.pipeline.name, table=self.pipeline.table))
        except TerminalError:
            return False
        return True

    def _deliver_part(
        self, batch: ProvenBatch, begun: Mapping[str, Any], parts: Sequence[StagedPart], number: int
    ) -> PartDelivery:
        with self._open_sink() as sink:
            return delivered_part(sink, batch, begun, parts, number)

    @contextmanager
    def _open_sink(self) -> Iterator[Sink]:
        with delivery_sink(RunSettings.of(self.target), self.credentials, self.surroundings) as sink:
            if sink is None:
                raise UsageError("a sink of type files takes no batches that are delivered once more: copy the files")
            yield sink

    def _batch(self, number: int, kept: KeptChanges, manifest: Manifest, output: OutputMode) -> ProvenBatch:
        offset = self.checkpoint.offset(number)
        if offset is None:
            raise UndeliverableBatchError(
                f"the record of batch {number} in {self.checkpoint.url} is gone: a backfill of its range can be "
                "delivered to another sink",
                url=self.checkpoint.url,
                batch_number=number,
            )
        return committed_batch(
            offset,
            manifest,
            output,
            owner=offset.checkpoint_id,
            schema=kept.schema(manifest),
        )
