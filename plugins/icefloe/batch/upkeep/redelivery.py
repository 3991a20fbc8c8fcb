"""Committed batches, delivered once more: to a new index, a lost topic, or any other sink."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from icefloe.batch.context.end_batch import show_end
from icefloe.batch.context.sinks import Surroundings, delivered_folder, delivery_sink, folder_of_changes
from icefloe.batch.deliver.deliver_batch import delivered_part
from icefloe.batch.deliver.prove import OutputMode, committed_batch, staged_parts
from icefloe.batch.phase_record import Engine
from icefloe.batch.run_settings import Credentials, RunSettings
from icefloe.changes.columns import change_schema
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import BatchOutcome
from icefloe.errors import TerminalError, UsageError
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import Manifest
from icefloe.sinks.sink import PartDelivery, Sink
from icefloe.storage.store import KeyMissingError

__all__ = ["Redelivery"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptChanges:
    """Changes of committed batches; readers of the sink count them in ``counted_folder``, if there is one."""

    pipeline: Pipeline
    checkpoint: Checkpoint
    folder: ChangeFiles
    counted_folder: ChangeFiles | None

    def check(self, numbers: Sequence[int]) -> list[int]:
        """The batches that have changes for the sink. `TerminalError` if one is not committed, or no longer staged."""
        return [number for number in numbers if self._has_changes(number)]

    def show_ends(self, numbers: Sequence[int]) -> list[int]:
        """Writes missing manifests of batches that `check` leaves out; returns their numbers."""
        folder = self.counted_folder
        if folder is None:
            return []
        commits = [commit for number in numbers if (commit := self.checkpoint.committed(number)) is not None]
        missing = [each for each in commits if folder.whole(each.batch_number) is None]
        shown = [each for each in missing if not self._has_changes(each.batch_number)]
        for commit in shown:
            show_end(commit, folder, pipeline=self.pipeline.name, table=self.pipeline.table)
        return [commit.batch_number for commit in shown]

    def manifest(self, number: int) -> Manifest:
        """The manifest of a batch; `TerminalError` if its files are gone."""
        found = self._kept(number)
        if found is None:
            raise self._gone(number)
        return found

    def schema(self, manifest: Manifest) -> pa.Schema:
        """The schema of a batch's rows, from its first file; only the change columns if it has none."""
        if not manifest.parts:
            return change_schema(pa.schema([]), with_batch=True)
        return self.folder.part_schema(manifest.batch.batch_number, manifest.parts[0])

    def _has_changes(self, number: int) -> bool:
        commit = self.checkpoint.committed(number)
        if commit is None:
            raise TerminalError(
                f"batch {number} of {self.pipeline.name} is not committed, so it cannot be delivered once more; "
                f"icefloe batches {self.pipeline.name} lists those that are",
                batch_number=number,
            )
        if commit.outcome is not BatchOutcome.DELIVERED:
            return False
        # A reset gives an empty manifest to a batch that was delivered elsewhere.
        manifest = self._kept(number)
        if manifest is not None and manifest.batch.steps == commit.steps:
            return True
        if self.counted_folder is not None and self._is_before_reset(number):
            return False
        raise self._gone(number)

    def _kept(self, number: int) -> Manifest | None:
        """None if it is no longer where changes are kept."""
        try:
            return self.folder.manifest(number)
        except KeyMissingError:
            return None

    def _gone(self, number: int) -> TerminalError:
        return TerminalError(
            f"batch {number} of {self.pipeline.name} is committed, but its files are no longer in "
            f"{self.folder.url}: set changelog.keep to keep them longer; deliver a backfill of its range to another "
            "sink, or set the cursor back to before it",
            url=self.folder.url,
            batch_number=number,
        )

    def _is_before_reset(self, number: int) -> bool:
        """True if readers drop the changes at a later reset."""
        latest = self.checkpoint.latest_batch() or 0
        later = (self.checkpoint.committed(each) for each in range(number + 1, latest + 1))
        return any(each is not None and each.outcome is BatchOutcome.RESET for each in later)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLetters:
    """The dead letters, and the sink that is to take them now."""

    pipeline: Pipeline
    checkpoint: Checkpoint
    target: Pipeline
    open_sink: Callable[[], AbstractContextManager[Sink]]

    def counts(self, numbers: Sequence[int] | None = None) -> dict[int, int]:
        """Dead letters by committed batch, of the given ones or of all. `UsageError` if the sink keeps none."""
        with self._sink() as sink:
            found = sink.dead_letters()
        return {
            number: count
            for number, count in sorted(found.items())
            # Those of an open batch are written again by each try of it.
            if (numbers is None or number in numbers) and self.checkpoint.committed(number) is not None
        }

    def send(self, number: int) -> list[PartDelivery]:
        offset = self.checkpoint.offset(number)
        with self._sink() as sink:
            if offset is not None:
                origin = Origin(owner=offset.checkpoint_id, pipeline=self.pipeline.name, table=self.pipeline.table)
                sink.claim(origin, only_looks=True)
            found = list(sink.replay_dead_letters(number))
        logger.info("batch %d of %s: dead letters sent again", number, self.pipeline.name)
        return found

    @contextmanager
    def _sink(self) -> Iterator[Sink]:
        with self.open_sink() as sink:
            if not sink.keeps_dead_letters or not self.target.sink.options.get("dead_letters"):
                raise UsageError(
                    "this sink has no dead letters that can be sent again; of a sink of type opensearch, name a folder "
                    "for them in sink.dead_letters",
                    pipeline=self.pipeline.name,
                )
            yield sink


@dataclass(frozen=True, slots=True, kw_only=True)
class Redelivery:
    """Committed batches, and the sink that they are to be delivered to. No catalog is asked.

    Attributes:
        target: the pipeline with the sink that takes them.
        backfill_id: None: batches of the pipeline itself.
    """

    pipeline: Pipeline
    target: Pipeline
    credentials: Credentials
    checkpoint: Checkpoint
    backfill_id: str | None = None
    surroundings: Surroundings = field(default_factory=Surroundings, repr=False)

    def batches(self, asked: Sequence[int] | None) -> Sequence[int] | None:
        """Numbers of the batches that were asked for, or the one batch of the backfill.

        Raises:
            UsageError: numbers were given for a backfill.
            TerminalError: the backfill has delivered nothing.
        """
        if self.backfill_id is None:
            return asked
        if asked is not None:
            raise UsageError("--batches names batches of the pipeline itself: leave them out, or leave out --backfill")
        number = self.checkpoint.look().backfilled_number
        if number is None:
            raise TerminalError(
                f"backfill {self.backfill_id} of {self.pipeline.name} has delivered nothing, so it cannot be delivered "
                "once more: start its range again, or correct the ID",
            )
        return [number]

    def deliver(self, number: int, engine: Engine) -> list[PartDelivery]:
        """Delivers one batch; repeating it delivers nothing twice. The engine is this process's.

        `TerminalError` if it is a backfill's batch, and the sink is the pipeline's.
        """
        kept = self.kept
        manifest = kept.manifest(number)
        staged = list(staged_parts(kept.folder, manifest, memory_bytes=self.target.shuffle.memory_bytes))
        output = OutputMode.of(manifest.batch, staged, self.target.changes)
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
        """The changes of these batches, where they are kept."""
        folder = folder_of_changes(
            RunSettings.of(self.pipeline, backfill_id=self.backfill_id), self.credentials, self.surroundings
        )
        counted = None
        if self.backfill_id is None:
            counted = delivered_folder(RunSettings.of(self.target), self.credentials, self.surroundings)
        return KeptChanges(pipeline=self.pipeline, checkpoint=self.checkpoint, folder=folder, counted_folder=counted)

    @property
    def letters(self) -> KeptLetters:
        """Their dead letters, which the sink keeps."""
        return KeptLetters(
            pipeline=self.pipeline,
            checkpoint=self.checkpoint,
            target=self.target,
            open_sink=self._open_sink,
        )

    def url(self, *, is_checked: bool = True) -> str:
        """Address of the sink; by default it is proven that the sink can be written."""
        with self._open_sink() as sink:
            if is_checked:
                sink.check()
            return sink.url

    def _refuse_own_sink(self, sink: Sink, batch: ProvenBatch) -> None:
        """A backfill's changes are older than what the sink holds, and nothing says which of them still count."""
        if self.backfill_id is None:
            return
        try:
            sink.claim(batch.origin, only_looks=True)
        except TerminalError as error:
            if not self._owns(sink):
                raise
            after, name = batch.after_snapshot_id, self.pipeline.name
            reset = f"icefloe reset {name} loads the table again"
            again = f"icefloe set-cursor {name} --snapshot-id {after} delivers that range and all commits since again"
            raise TerminalError(
                f"{sink.url} belongs to {name} itself and has later batches, so it takes no backfill: "
                f"{reset if after is None else f'{again}, {reset}'}; --sink FILE names another sink for the backfill",
            ) from error

    def _owns(self, sink: Sink) -> bool:
        """True if the sink belongs to the backfill's pipeline."""
        store = self.surroundings.open_store(self.pipeline.checkpoint_url, options=self.credentials.storage_options)
        owner = Checkpoint(store).look().checkpoint_id
        if owner is None:
            return False
        try:
            sink.claim(Origin(owner=owner, pipeline=self.pipeline.name, table=self.pipeline.table), only_looks=True)
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
            raise TerminalError(
                f"the record of batch {number} in {self.checkpoint.url} is gone: a backfill of its range can be "
                "delivered to another sink",
                url=self.checkpoint.url,
                batch_number=number,
            )
        return committed_batch(offset, manifest, output, schema=kept.schema(manifest))
