"""Ending an open batch by hand: given up if no reader has seen anything of it, else recorded as done."""

import logging
from dataclasses import dataclass, field
from typing import Final

from icefloe.batch.batch_keys import plan_url
from icefloe.batch.commit.cleanup import clean_up_finished
from icefloe.batch.commit.commit_batch import commit_batch
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import batch_url
from icefloe.batch.context.sinks import delivered_folder, folder_of_changes
from icefloe.batch.context.surroundings import Surroundings
from icefloe.batch.credentials import Credentials
from icefloe.batch.ends.empty_end import EmptyEnd
from icefloe.batch.ends.end_batch import end_without_changes
from icefloe.batch.operations.half_delivered import refuse_half_delivered
from icefloe.batch.run_settings import RunSettings
from icefloe.batch.status.publish_status import publish_end
from icefloe.checkpoint.cursor import BatchOutcome
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import CommitRecord, OffsetRecord, Writer
from icefloe.errors import IcefloeError, TerminalError
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.sink import BatchSummary, Sink

__all__ = ["AbandonablePipeline", "DeliveredEnd"]

logger = logging.getLogger(__name__)

_MOST_NAMED: Final = 10


class CursorMoveOpenError(TerminalError):
    """The open batch moves the cursor and has nothing to give up."""

    batch_number: int


class UnknownBackfillError(TerminalError):
    """A backfill was named that was never begun."""

    backfill_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredEnd:
    """An open batch that is whole at the sink, because its run was killed right before its record.

    Attributes:
        pipeline: name of the pipeline.
        offset: the batch.
        summary: what readers see.
    """

    pipeline: str
    offset: OffsetRecord
    summary: BatchSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonablePipeline:
    """A pipeline whose open batch may be ended. Neither its catalog nor its table is asked, as they may be down.

    Attributes:
        pipeline: with ``${ENV}`` expanded.
        writer: who gives the batch up.
        backfill_id: the backfill whose batch is ended; None: a batch of the pipeline itself.
        surroundings: stores around the pipeline.
    """

    pipeline: Pipeline
    credentials: Credentials
    writer: Writer
    backfill_id: str | None = None
    surroundings: Surroundings = field(default_factory=Surroundings, repr=False)

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint of the pipeline or of the backfill."""
        store = self.surroundings.open_store(self.pipeline.checkpoint_url, options=self.credentials.storage_options)
        return Checkpoint(store) if self.backfill_id is None else Checkpoint(store).backfill(self.backfill_id)

    def find(self) -> EmptyEnd | DeliveredEnd | None:
        """The end that the open batch can have; None if no batch is open. Changes nothing.

        Raises:
            CursorMoveOpenError: the open batch only moves the cursor.
            HalfDeliveredError: the sink that the batch is delivered to may hold a part of it.
        """
        view, pipeline = self.checkpoint.look(), self.pipeline
        opened = view.opened
        if opened is None:
            if self.backfill_id is not None and view.cursor is None:
                self._refuse_unknown(self.backfill_id)
            return None
        number = opened.batch_number
        if opened.move is not None:
            raise CursorMoveOpenError(
                f"batch {number} of {pipeline.name} only moves the cursor ({opened.move.outcome}), so there is nothing "
                f"to abandon; icefloe run {pipeline.name} completes it",
                batch_number=number,
            )
        end = EmptyEnd.of_abandoned(opened, view.cursor, pipeline=pipeline.name, table=pipeline.table)
        whole = self._sink.whole(number)
        if whole is None or whole == end.summary:
            return end
        refuse_half_delivered(self._reference(opened), pipeline=pipeline.name)
        return DeliveredEnd(pipeline=pipeline.name, offset=opened, summary=whole)

    def _refuse_unknown(self, backfill_id: str) -> None:
        store = self.surroundings.open_store(self.pipeline.checkpoint_url, options=self.credentials.storage_options)
        known = sorted({each.key.split("/")[1] for each in store.list("backfills")})
        found = f"it has {', '.join(known[-_MOST_NAMED:])}" if known else "it has none"
        if backfill_id not in known:
            raise UnknownBackfillError(
                f"pipeline {self.pipeline.name} has no backfill {backfill_id}: {found}; correct the ID",
                backfill_id=backfill_id,
            )

    def abandon(self, end: EmptyEnd) -> CommitRecord:
        """Gives up the batch that `find` found; repeating it completes what was begun.

        Returns:
            The commit record that counts. Its outcome says who was faster, this call or a run that delivered the batch.

        Raises:
            DeliveredError: a run has made the batch whole at the sink meanwhile.
            OtherOwnerError: the checkpoint belongs to another owner.
        """
        checkpoint = self.checkpoint
        delivered = delivered_folder(self._settings, self.credentials, self.surroundings)
        found = end_without_changes(
            end, checkpoint=checkpoint, sink=self._sink, delivered=delivered, writer=self.writer
        )
        if found.outcome is BatchOutcome.ABANDONED:
            self._clean_up(end.offset)
            publish_end(checkpoint, self.pipeline, found)
        return found

    def record_as_done(self, end: DeliveredEnd) -> None:
        """Writes the records of a batch that `find` found at the sink; repeating it completes what was begun.

        A run does that too, but a run stops before it if the table was replaced or keys were edited since.

        Raises:
            PlanMissingError: the files that the batch passed between its phases are gone.
            AuditError: they do not add up.
            OtherOwnerError: the checkpoint belongs to another owner.
        """
        checkpoint, number = self.checkpoint, end.offset.batch_number
        commit_batch(self._reference(end.offset).open())
        self._clean_up(end.offset)
        found = checkpoint.committed(number)
        if found is not None:
            publish_end(checkpoint, self.pipeline, found)

    @property
    def _sink(self) -> Sink:
        return folder_of_changes(self._settings, self.credentials, self.surroundings)

    @property
    def _settings(self) -> RunSettings:
        return RunSettings.of(self.pipeline, backfill_id=self.backfill_id, writer=self.writer)

    def _reference(self, offset: OffsetRecord) -> BatchReference:
        url = plan_url(batch_url(self.pipeline, offset, backfill_id=self.backfill_id))
        return BatchReference(
            plan_url=url, credentials=self.credentials, settings=self._settings, surroundings=self.surroundings
        )

    def _clean_up(self, offset: OffsetRecord) -> None:
        """Deletes the shuffle files of the batch. The cleanup of the next batch takes what remains."""
        try:
            clean_up_finished(self._reference(offset))
        except IcefloeError as error:
            logger.warning("the batch has ended, but its shuffle files remain: %s", error)
