"""Ending an open batch by hand: given up if no reader has seen anything of it, otherwise recorded as done."""

import logging
from dataclasses import dataclass, field, replace
from typing import Final

from icefloe.batch.context.batch_folder import BatchFileMissingError
from icefloe.batch.context.end_batch import BatchStateError, EmptyEnd, end_without_changes, try_to_show_ends
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession, batch_url
from icefloe.batch.context.sinks import Surroundings, delivered_folder, folder_of_changes
from icefloe.batch.deliver.commit_batch import clean_up_finished, commit_batch
from icefloe.batch.deliver.deliver_batch import DeliveryRecords
from icefloe.batch.deliver.prove import UnfinishedTasksError
from icefloe.batch.open.recorded_pipeline import refuse_other_coordination
from icefloe.batch.plan_document import plan_url
from icefloe.batch.report import BatchDelivery, BatchReport
from icefloe.batch.run_settings import Credentials, RunSettings
from icefloe.batch.status import publish_end
from icefloe.changes.columns import removed_rows
from icefloe.checkpoint.log import Checkpoint, CheckpointView
from icefloe.checkpoint.protocol import Act, BatchState
from icefloe.checkpoint.records import BatchOutcome, CommitRecord, Ending, OffsetRecord, Writer
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.flow import Route
from icefloe.pipeline.model import ChangesPlace, Pipeline
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import BatchSummary, DamagedPartsError
from icefloe.storage.store import Store
from icefloe.units import now_text

__all__ = ["AbandonablePipeline", "DeliveredEnd"]

logger = logging.getLogger(__name__)


def refuse_other_place(opened: OffsetRecord, pipeline: Pipeline) -> None:
    """Stops an abandon if the changes are in another folder than today's."""
    number, name, there = opened.batch_number, pipeline.name, _other_place(opened, pipeline)
    if there is None:
        return
    here = ChangesPlace.of(pipeline).path
    raise TerminalError(
        f"the changes of batch {number} of {name} are in {there.path}, but {there.keys} "
        + ("has another value of its variables here" if here == there.path else f"leads to {here} now")
        + f", where nothing shows whether they were delivered: restore {there.keys}, then run icefloe abandon "
        f"{name} again" + (f", or run icefloe reset {name}, which loads the table again" if pipeline.delivers else ""),
        batch_number=number,
    )


def _half_delivered(number: int, pipeline: str, sink: str) -> BatchStateError:
    """Only a load takes back what the sink holds: net changes may leave out a row that came and went."""
    return BatchStateError(
        f"batch {number} of {pipeline} is proven and {sink} may hold a part of it, so it cannot be abandoned: "
        f"icefloe run {pipeline} delivers the rest; if {sink} refuses that for good, icefloe reset {pipeline} "
        "gives the batch up and loads the table again",
        batch_number=number,
    )


def half_delivered_end(session: PipelineSession, view: CheckpointView) -> EmptyEnd | None:
    """The end that a reset gives to the open batch; None if no batch is open, or if it can be abandoned alone."""
    opened, pipeline = view.opened, session.pipeline
    if opened is None or opened.ending.is_move:
        return None
    end = EmptyEnd.of_open(opened, pipeline)
    whole = session.folder_of_changes.whole(opened.batch_number)
    state = _state(session.reference(opened), end, whole)
    # In another folder it may be whole, and then the sink may have a part: a load replaces that in any case.
    is_elsewhere = pipeline.delivers and _other_place(opened, pipeline) is not None
    if not (is_elsewhere and whole in (None, end.summary)) and not state.allows(Act.GIVE_UP):
        return None
    # At the beginning, so that whatever comes next is a load, also if the reset is killed right after this.
    return replace(end, ending=Ending.abandoned_half_delivered(opened.follows))


def give_up_delivery(session: PipelineSession, end: EmptyEnd) -> None:
    """Fences a batch's late tasks; `TransientError` if a run has delivered it."""
    checkpoint, number = session.checkpoint, end.offset.batch_number
    checkpoint.refuse_other(session.writer)
    # The record decides: a run that delivers the batch at this moment creates the same one. So the report comes after
    # it, and the report of a run that lost does not count.
    commit = checkpoint.create_commit(end.commit(session.writer))
    if commit.outcome is not BatchOutcome.ABANDONED:
        raise TransientError(
            f"a run of {end.pipeline} has delivered batch {number} meanwhile, so nothing was reset: look again, and "
            "pause the pipeline before you reset it",
            batch_number=number,
        )
    BatchReport.of_given_up(checkpoint, commit).keep(checkpoint)
    # What a run published of the batch right before this stays visible: readers drop it at the load that comes.
    try_to_show_ends(checkpoint, session.delivered_folder, up_to=number, pipeline=end.pipeline, table=end.table)
    try:
        clean_up_finished(session.reference(end.offset))
    except IcefloeError as error:
        logger.warning("the batch has ended, but its shuffle files remain: %s", error)


def is_given_up(session: PipelineSession, commit: CommitRecord) -> bool:
    """True if a batch was given up half delivered: it has staged changes, or its staged files are gone."""
    if commit.outcome is not BatchOutcome.ABANDONED:
        return False
    whole = session.folder_of_changes.whole(commit.batch_number)
    return whole is None or whole.rows > 0


def _other_place(opened: OffsetRecord, pipeline: Pipeline) -> ChangesPlace | None:
    """None if it is not known to be another one than today's."""
    recorded, today = ChangesPlace.recorded(opened.result_configuration), ChangesPlace.of(pipeline)
    return None if recorded is None or recorded.may_be(today) else recorded


def _state(reference: BatchReference, end: EmptyEnd, whole: BatchSummary | None) -> BatchState:
    return BatchState.of_open(
        is_passed_on=reference.settings.delivers,
        is_whole=whole is not None,
        is_closed=whole == end.summary,
        has_begun=reference.has_begun_delivery,
        has_arrived=DeliveryRecords(reference.folder).batch() is not None,
    )


_MOST_NAMED: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredEnd:
    """An open batch that is whole at the sink: its run was killed right before its record."""

    pipeline: str
    offset: OffsetRecord
    summary: BatchSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonablePipeline:
    """A pipeline whose open batch may be ended. Catalog and table are not asked, as they may be down.

    Attributes:
        pipeline: with ``${ENV}`` expanded.
        backfill_id: None: a batch of the pipeline itself.
    """

    pipeline: Pipeline
    credentials: Credentials
    writer: Writer
    backfill_id: str | None = None
    surroundings: Surroundings = field(default_factory=Surroundings, repr=False)

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint of the pipeline or of the backfill."""
        store = self.open_storage(self.pipeline.checkpoint_url)
        return Checkpoint(store) if self.backfill_id is None else Checkpoint(store).backfill(self.backfill_id)

    def open_storage(self, url: str) -> Store:
        """A place of the pipeline's storage."""
        return self.surroundings.open_store(url, options=self.credentials.storage_options)

    def find(self) -> EmptyEnd | DeliveredEnd | None:
        """The end that the open batch can have; None if no batch is open. Changes nothing.

        Raises:
            BatchStateError: the open batch only moves the cursor, or the sink may hold a part of it.
            TerminalError: its changes or the checkpoint are elsewhere than the pipeline file says.
        """
        view, pipeline = self.checkpoint.look(), self.pipeline
        if view.checkpoint_id is None:
            refuse_other_coordination(self)
        opened = view.opened
        if opened is None:
            if self.backfill_id is not None and view.cursor is None:
                self._refuse_unknown(self.backfill_id)
            return None
        number = opened.batch_number
        if opened.ending.is_move:
            raise BatchStateError(
                f"batch {number} of {pipeline.name} only moves the cursor ({opened.ending.outcome}), so there is "
                f"nothing to abandon; icefloe run {pipeline.name} completes it",
                batch_number=number,
            )
        end = EmptyEnd.of_open(opened, pipeline)
        sink, reference = self._sink, self._reference(opened)
        sink.claim(Origin(owner=opened.checkpoint_id, pipeline=pipeline.name, table=pipeline.table), only_looks=True)
        whole = sink.whole(number)
        state = _state(reference, end, whole)
        if whole is not None and state.allows(Act.RECORD):
            return DeliveredEnd(pipeline=pipeline.name, offset=opened, summary=whole)
        if whole in (None, end.summary):
            refuse_other_place(opened, pipeline)
        if state.allows(Act.GIVE_UP):
            raise _half_delivered(number, pipeline.name, str(opened.result_configuration.get("sink.type")))
        return end

    def _refuse_unknown(self, backfill_id: str) -> None:
        store = self.open_storage(self.pipeline.checkpoint_url)
        known = sorted({each.key.split("/")[1] for each in store.list("backfills")})
        found = f"it has {', '.join(known[-_MOST_NAMED:])}" if known else "it has none"
        if backfill_id not in known:
            raise TerminalError(
                f"pipeline {self.pipeline.name} has no backfill {backfill_id}: {found}; correct the ID",
            )

    def abandon(self, end: EmptyEnd) -> CommitRecord:
        """Gives up the batch that `find` found; repeating it completes what was begun.

        Returns:
            The commit record that counts. Its outcome says whether this call or a run that delivered the batch was
            faster.

        Raises:
            TransientError: a run has made the batch whole at the sink meanwhile.
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

        A run does that too, unless the table was replaced, keys were edited, or the files between the phases are gone
        and the table no longer has the range.
        """
        checkpoint, number = self.checkpoint, end.offset.batch_number
        try:
            commit_batch(self._reference(end.offset).open())
        except (BatchFileMissingError, UnfinishedTasksError) as error:
            # If the damage is at the sink, the tasks can still mend it.
            if isinstance(error.__cause__, DamagedPartsError):
                raise
            logger.info("batch %d is recorded by its manifest: %s", number, error)
            self._record_by_manifest(end)
        self._clean_up(end.offset)
        found = checkpoint.committed(number)
        if found is not None:
            publish_end(checkpoint, self.pipeline, found)

    def _record_by_manifest(self, end: DeliveredEnd) -> None:
        """Without the files of the tasks: they proved the batch before it had a manifest."""
        checkpoint, offset, summary = self.checkpoint, end.offset, end.summary
        checkpoint.refuse_other(self.writer)
        # It has a manifest, so nothing is written: its files are compared with that.
        self._sink.commit(summary, ())
        commit = CommitRecord(
            checkpoint_id=offset.checkpoint_id,
            ending=Ending.delivered(offset.batch_number, summary.up_to_snapshot_id),
            committed_by=self.writer,
            after_snapshot_id=summary.after_snapshot_id,
            load_part=offset.spec.load_part,
            route=_shown_route(summary),
            steps=summary.steps,
            counts=summary.counts,
            committed_at=now_text(),
        )
        why = (
            f"batch {offset.batch_number} was recorded by its manifest, because files of its tasks are gone: the "
            f"figures of its tasks are unknown ({self.writer})"
        )
        report = BatchReport(
            batch=summary,
            backfill_id=self.backfill_id,
            route=Route(commit.route),
            changes=offset.spec.changes,
            skipped_replace_snapshots=offset.spec.skipped_replace_snapshots,
            warnings=(why,),
            committed_at=commit.committed_at,
            delivery=self._delivery(offset),
        )
        report.keep(checkpoint)
        checkpoint.create_commit(commit)

    def _delivery(self, offset: OffsetRecord) -> BatchDelivery | None:
        return DeliveryRecords(self._reference(offset).folder).batch() if self._settings.delivers else None

    @property
    def _sink(self) -> ChangeFiles:
        return folder_of_changes(self._settings, self.credentials, self.surroundings)

    @property
    def _settings(self) -> RunSettings:
        return RunSettings.of(self.pipeline, backfill_id=self.backfill_id, writer=self.writer)

    def _reference(self, offset: OffsetRecord) -> BatchReference:
        url = plan_url(batch_url(self.pipeline, offset))
        return BatchReference(
            plan_url=url, credentials=self.credentials, settings=self._settings, surroundings=self.surroundings
        )

    def _clean_up(self, offset: OffsetRecord) -> None:
        """The cleanup of the next batch takes what remains."""
        try:
            clean_up_finished(self._reference(offset))
        except IcefloeError as error:
            logger.warning("the batch has ended, but its shuffle files remain: %s", error)


def _shown_route(summary: BatchSummary) -> Route:
    """The route, as far as the counts show it: only a shuffle removes rows."""
    if not summary.rows:
        return Route.NOTHING_TO_DO
    return Route.SHUFFLE if removed_rows(summary.counts) else Route.INSERT_ONLY
