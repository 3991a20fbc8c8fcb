"""Committed batches, delivered once more: to a new index, a lost topic, or any other sink."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from icefloe.batch.context.session import PipelinePlaces
from icefloe.batch.deliver.deliver_batch import delivered_part
from icefloe.batch.deliver.prove import OutputMode, proven_batch, staged_parts
from icefloe.batch.phase_record import Engine
from icefloe.checkpoint.records import BatchOutcome
from icefloe.errors import TerminalError, UsageError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.manifest import Manifest
from icefloe.sinks.sink import PartDelivery, Sink
from icefloe.storage.store import KeyMissingError

__all__ = ["Redelivery"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redelivery:
    """Committed batches, and the sink that they are to be delivered to. No catalog is asked.

    Attributes:
        source: the pipeline, or a backfill of it.
        target: the pipeline with the sink that takes them.
    """

    source: PipelinePlaces
    target: PipelinePlaces

    @property
    def pipeline(self) -> str:
        """Name of the pipeline."""
        return self.source.pipeline.name

    def batches(self, asked: Sequence[int] | None) -> Sequence[int] | None:
        """Numbers of the batches that were asked for, or the one batch of the backfill.

        Raises:
            UsageError: numbers were given for a backfill.
            TerminalError: the backfill has delivered nothing.
        """
        if self.source.backfill_id is None:
            return asked
        if asked is not None:
            raise UsageError("--batches names batches of the pipeline itself: leave them out, or leave out --backfill")
        number = self.source.checkpoint.look().backfilled_number
        if number is None:
            raise TerminalError(
                f"backfill {self.source.backfill_id} of {self.pipeline} has delivered nothing, so it cannot be "
                "delivered once more: start its range again, or correct the ID",
            )
        return [number]

    def check(self, numbers: Sequence[int]) -> list[int]:
        """The batches that have changes for the sink. `TerminalError` if one is not committed, or no longer staged."""
        return [number for number in numbers if self._has_changes(number)]

    def _has_changes(self, number: int) -> bool:
        commit = self.source.checkpoint.committed(number)
        if commit is None:
            raise TerminalError(
                f"batch {number} of {self.pipeline} is not committed, so it cannot be delivered once more; icefloe "
                f"batches {self.pipeline} lists those that are",
                batch_number=number,
            )
        if commit.outcome is not BatchOutcome.DELIVERED:
            return False
        # A reset gives an empty manifest to a batch that was delivered elsewhere.
        return self._kept(number, steps=commit.steps) is not None

    def _kept(self, number: int, *, steps: int | None = None) -> Manifest:
        """The manifest of a batch; `TerminalError` if it is gone, or that of another number of steps."""
        url = self.source.folder_of_changes.url
        with suppress(KeyMissingError):
            manifest = self.source.folder_of_changes.manifest(number)
            if steps in (None, manifest.batch.steps):
                return manifest
        raise TerminalError(
            f"batch {number} of {self.pipeline} is committed, but its files are no longer in {url}: set changelog.keep "
            "to keep them longer; deliver a backfill of its range to another sink, or set the cursor back to before it",
            url=url,
            batch_number=number,
        )

    def deliver(self, number: int, engine: Engine) -> list[PartDelivery]:
        """Delivers one batch; repeating it delivers nothing twice. The engine is this process's."""
        manifest, target = self._kept(number), self.target.pipeline
        staged = list(staged_parts(self.source.folder_of_changes, manifest, memory_bytes=target.shuffle.memory_bytes))
        output = OutputMode.of(manifest.batch, staged, target.changes)
        batch = proven_batch(self.source.checkpoint.known_offset(number), manifest, output, is_replay=True)
        parts = [output.reduced(part) for part in staged]
        with self._open_sink() as sink:
            # A backfill has an owner of its own, so a sink refuses it that has later batches of its pipeline.
            sink.claim(batch.origin)
            begun = sink.begin(batch)
            numbers = range(1 if sink.commits_once or sink.order_by else len(parts))
            deliveries = engine.map(partial(self._deliver_part, batch, begun, parts), numbers)
            sink.finish(batch, begun, deliveries)
        logger.info("batch %d of %s: delivered once more", number, self.pipeline)
        return deliveries

    def url(self) -> str:
        """Address of the sink, after proving that it can be written."""
        with self._open_sink() as sink:
            sink.check()
            return sink.url

    def _deliver_part(
        self, batch: ProvenBatch, begun: Mapping[str, Any], parts: Sequence[StagedPart], number: int
    ) -> PartDelivery:
        with self._open_sink() as sink:
            memory_bytes = self.target.pipeline.shuffle.memory_bytes
            return delivered_part(sink, batch, begun, parts, number, memory_bytes=memory_bytes)

    @contextmanager
    def _open_sink(self) -> Iterator[Sink]:
        with self.target.delivery_sink() as sink:
            if sink is None:
                raise UsageError("a sink of type files takes no batches that are delivered once more: copy the files")
            yield sink
