"""``status.json``, for the page and the command line: written when a task ends, well or not. It never decides."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Annotated, Final, Literal

from icefloe.batch.context.session import PipelinePlaces, PipelineSession
from icefloe.batch.report import BatchDelivery, BatchReport
from icefloe.checkpoint.log import Checkpoint
from icefloe.documents import LEFT_OUT_IF_NONE, Document, SnapshotId, dump_document, load_document
from icefloe.errors import TerminalError, one_line
from icefloe.flow import FlowTask
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.pins import PipelinePins
from icefloe.iceberg.step import LoadPart
from icefloe.pipeline.model import Pipeline
from icefloe.units import now_text, time_of_ms

__all__ = ["PipelineStatus", "TableFacts", "Trouble"]

logger = logging.getLogger(__name__)

_RECENT: Final = 50
_TASKS: Final = tuple(FlowTask)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble(Document):
    """The error of the last task that failed, or of a sensor that cannot look.

    Attributes:
        sentence: says what is wrong and what to do.
        at: ISO 8601.
        is_final: True if retrying cannot help, or no retry is left.
    """

    sentence: str
    phase: str
    at: str
    is_final: bool

    @classmethod
    def now(cls, sentence: str, *, phase: str, is_final: bool) -> "Trouble":
        """Trouble of a task that failed just now."""
        return cls(sentence=sentence, phase=phase, at=now_text(), is_final=is_final)

    def is_over_after(self, phase: str) -> bool:
        """True if the success of a phase ends the trouble: of the same or a later phase.

        >>> trouble = Trouble(sentence="the store timed out", phase="shuffle_read", at="", is_final=False)
        >>> trouble.is_over_after("plan"), trouble.is_over_after("commit")
        (False, True)
        """
        if self.phase not in _TASKS or phase not in _TASKS:
            return True
        return _TASKS.index(FlowTask(self.phase)) <= _TASKS.index(FlowTask(phase))

    def publish(self, places: PipelinePlaces, *, dag_id: str | None = None) -> None:
        """Adds a failed task to the status. It needs neither table nor catalog, because these may have failed."""
        with _best_effort(places.pipeline):
            before = PipelineStatus.known(places.checkpoint, places.pipeline)
            _put(places, replace(before, dag_id=before.dag_id or dag_id, trouble=self, updated_at=self.at))

    @classmethod
    def end(cls, places: PipelinePlaces, phase: str) -> None:
        """Takes the trouble of a task from the status: the task goes on. Trouble of another task stays."""
        with _best_effort(places.pipeline):
            before = PipelineStatus.known(places.checkpoint, places.pipeline)
            if before.trouble is not None and before.trouble.phase == phase:
                _put(places, replace(before, trouble=None, updated_at=now_text()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry(Document):
    """Time from which ``expire_snapshots`` may remove a snapshot, ISO 8601."""

    snapshot_id: SnapshotId
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins(Document):
    """The snapshots that ``pin: true`` keeps from expiring."""

    branch: str  # their tags begin with its name
    snapshots: int
    up_to_snapshot_id: SnapshotId | None  # later commits are not pinned yet
    oldest_at: str | None  # commit of the oldest, ISO 8601; None: it is gone

    @classmethod
    def of(cls, history: History, pipeline: str, checkpoint_id: str | None) -> "Pins | None":
        """The pins of a pipeline as its table has them; None if there are none."""
        found = PipelinePins.find(history, pipeline, checkpoint_id)
        if found is None:
            return None
        tagged = [history.snapshots[each] for each in found.tagged.values() if each in history.snapshots]
        return cls(
            branch=found.branch,
            snapshots=len(found.tagged),
            up_to_snapshot_id=found.branch_head_id,
            oldest_at=time_of_ms(min(each.timestamp_ms for each in tagged)) if tagged else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentBatch(Document):
    """One committed batch, in a few numbers."""

    batch: int
    committed_at: str
    route: str
    rows: int
    bytes: int
    seconds: float | None  # with waiting and retries
    dead_letters: Annotated[int | None, LEFT_OUT_IF_NONE] = None

    @classmethod
    def of(cls, report: BatchReport) -> "RecentBatch":
        return cls(
            batch=report.batch.batch_number,
            committed_at=report.committed_at,
            route=report.route.value,
            rows=sum(report.batch.counts.values()),
            bytes=report.bytes_read,
            seconds=report.seconds,
            dead_letters=None if report.delivery is None else report.delivery.dead_letters or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts(Document):
    """The table behind the cursor, as it was loaded; times are ISO 8601 with offset.

    Attributes:
        cursor_timestamp: of the commit; None also if the snapshot expired.
        lag_snapshots: None if the cursor is not in the branch's history.
        lag_rows: rows of files added and deleted; None if a summary does not say.
        waiting_since: time of the oldest pending commit; None if up to date, or not known.
        next_expiry: of the cursor's snapshot; None if nothing removes it as the table is now.
    """

    cursor_timestamp: str | None = None
    head_snapshot_id: SnapshotId | None = None
    head_timestamp: str | None = None
    lag_snapshots: int | None = None
    lag_rows: int | None = None
    waiting_since: str | None = None
    next_expiry: Expiry | None = None

    @classmethod
    def of(
        cls,
        history: History,
        *,
        branch: str,
        cursor_snapshot_id: int | None,
        cursor_timestamp: str | None,
        is_loading: bool = False,
    ) -> "TableFacts":
        """The facts of a table; reads nothing.

        Args:
            cursor_timestamp: None if not known. A snapshot of another time is another one, to which its writer gave the
                same id.
            is_loading: True if the cursor's snapshot is delivered only in part.
        """
        head = history.head(branch)
        delivered = None if cursor_snapshot_id is None else history.snapshots.get(cursor_snapshot_id)
        if delivered is not None and cursor_timestamp not in (None, time_of_ms(delivered.timestamp_ms)):
            cursor_snapshot_id = -delivered.snapshot_id
        elif delivered is not None:
            cursor_timestamp = time_of_ms(delivered.timestamp_ms)
        behind = history.lag(branch=branch, cursor_snapshot_id=cursor_snapshot_id, is_loading=is_loading)
        expires_ms = None if cursor_snapshot_id is None else history.next_expiry_ms(cursor_snapshot_id)
        expiry = None
        if cursor_snapshot_id is not None and expires_ms is not None:
            expiry = Expiry(snapshot_id=cursor_snapshot_id, at=time_of_ms(expires_ms))
        return cls(
            cursor_timestamp=cursor_timestamp,
            head_snapshot_id=None if head is None else head.snapshot_id,
            head_timestamp=None if head is None else time_of_ms(head.timestamp_ms),
            lag_snapshots=behind.snapshots,
            lag_rows=behind.rows,
            waiting_since=None if behind.since_timestamp_ms is None else time_of_ms(behind.since_timestamp_ms),
            next_expiry=expiry,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus(TableFacts):
    """The status at ``updated_at``. Times are ISO 8601 with offset; the last writer wins.

    Attributes:
        dag_id: None if Airflow never ran the pipeline.
        cursor_snapshot_id: None before the first batch, as are ``last_batch`` and ``last_committed_at``.
        owner: of the checkpoint; None: nobody in particular.
        checkpoint_id: names its folders in the shuffle.
        load_part: last delivered part of an incomplete initial load.
        trouble: None after the next success.
        pins: None if the pipeline pins none.
        recent: the last batches, oldest first.
        last_delivery: None if the files are the sink.
    """

    version: Literal[1] = 1
    pipeline: str
    table: str
    branch: str
    dag_id: str | None = None
    updated_at: str
    cursor_snapshot_id: SnapshotId | None = None
    open_batch: int | None = None
    open_since: str | None = None
    open_run: str | None = None
    owner: str | None = None
    checkpoint_id: str | None = None
    load_part: LoadPart | None = None
    last_batch: int | None = None
    last_committed_at: str | None = None
    trouble: Trouble | None = None
    pins: Annotated[Pins | None, LEFT_OUT_IF_NONE] = None
    recent: tuple[RecentBatch, ...] = ()
    last_delivery: Annotated[BatchDelivery | None, LEFT_OUT_IF_NONE] = None

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> "PipelineStatus | None":
        """The last status; None if there is none, or none that this release can read."""
        data = checkpoint.status()
        if data is None:
            return None
        try:
            return load_document(cls, data, what=f"the status in {checkpoint.url}")
        except TerminalError as error:
            logger.warning("%s; the next batch writes it again", error.sentence)
            return None

    @classmethod
    def known(cls, checkpoint: Checkpoint, pipeline: Pipeline) -> "PipelineStatus":
        """The last status, or one that says nothing yet."""
        nothing = cls(pipeline=pipeline.name, table=pipeline.table, branch=pipeline.branch, updated_at=now_text())
        return cls.load(checkpoint) or nothing

    @classmethod
    def now(
        cls,
        pipeline: Pipeline,
        checkpoint: Checkpoint,
        history: History | None,
        *,
        phase: str | None = None,
        dag_id: str | None = None,
        report: BatchReport | None = None,
    ) -> "PipelineStatus":
        """The status now; reads no row and lists nothing. What a later batch left in the status stays.

        Args:
            history: of the table; None: what was known of it at this cursor stays, unless the status is only looked at:
                then it is not there.
            phase: the task that succeeded; None: the status is only looked at.
        """
        view, before = checkpoint.look(), cls.known(checkpoint, pipeline)
        cursor, opened, trouble, delivery = view.cursor, view.opened, before.trouble, before.last_delivery
        recent, is_late = {each.batch: each for each in before.recent}, False
        if report is not None:
            number = report.batch.batch_number
            recent[number] = RecentBatch.of(report)
            is_last = number == max(recent)
            # A commit that was cleared in Airflow, or that comes late, reports a batch that others have followed.
            is_late = opened is not None or not is_last
            delivery = report.delivery if is_last and report.delivery is not None else delivery
        if trouble is not None and phase is not None and not is_late and trouble.is_over_after(phase):
            trouble = None
        cursor_id, load_part = (None, None) if cursor is None else (cursor.snapshot_id, cursor.load_part)
        facts = TableFacts(cursor_timestamp=None if cursor is None else cursor.timestamp)
        pins = None if phase is None else before.pins
        if history is not None:
            facts = TableFacts.of(
                history,
                branch=pipeline.branch,
                cursor_snapshot_id=cursor_id,
                cursor_timestamp=facts.cursor_timestamp,
                is_loading=load_part is not None,
            )
            pins = Pins.of(history, pipeline.name, view.checkpoint_id)
        elif phase is not None and before.cursor_snapshot_id == cursor_id:
            facts = before
        commit = None if cursor is None else checkpoint.committed(cursor.batch_number)
        return cls(
            **{each.name: getattr(facts, each.name) for each in fields(TableFacts)},
            pipeline=pipeline.name,
            table=pipeline.table,
            branch=pipeline.branch,
            dag_id=dag_id or before.dag_id,
            updated_at=now_text(),
            cursor_snapshot_id=cursor_id,
            open_batch=None if opened is None else opened.batch_number,
            open_since=None if opened is None else opened.opened_at,
            open_run=None if opened is None else opened.opened_by.run,
            owner=None if view.owner is None else view.owner.writer.owner,
            checkpoint_id=None if view.owner is None else view.owner.checkpoint_id,
            load_part=load_part,
            last_batch=None if cursor is None else cursor.batch_number,
            last_committed_at=None if commit is None else commit.committed_at,
            trouble=trouble,
            pins=pins,
            recent=tuple(recent[number] for number in sorted(recent)[-_RECENT:]),
            last_delivery=delivery,
        )

    @classmethod
    def publish(
        cls,
        places: PipelinePlaces,
        *,
        phase: str,
        dag_id: str | None = None,
        report: BatchReport | None = None,
        is_stale: bool = False,
    ) -> "PipelineStatus | None":
        """Writes the status of a pipeline and returns it; None if there is none to write. Errors are logged.

        Args:
            places: without a session, what was known of the table stays.
            phase: the task that succeeded; its trouble and that of earlier tasks is over, unless it is of a later
                batch.
            dag_id: None: as before.
            report: of a batch that this run committed or found committed.
            is_stale: True if the session's table has to be loaded again.
        """
        status: PipelineStatus | None = None
        with _best_effort(places.pipeline):
            history = None
            if isinstance(places, PipelineSession):
                history = (places.with_fresh_table() if is_stale else places).table.history
            # After a takeover the status describes the runs of the new owner.
            if places.checkpoint.other_owner(places.writer) is not None:
                return None
            status = cls.now(places.pipeline, places.checkpoint, history, phase=phase, dag_id=dag_id, report=report)
            places.checkpoint.put_status(dump_document(status))
        return status


def _put(places: PipelinePlaces, status: PipelineStatus) -> None:
    """Writes the status, unless the checkpoint is another deployment's: then the news is not its own."""
    if places.checkpoint.other_owner(places.writer) is None:
        places.checkpoint.put_status(dump_document(status))


@contextmanager
def _best_effort(pipeline: Pipeline) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is: a page that is late is no reason to stop delivering
        logger.warning("the status of %s could not be written: %s", pipeline.name, one_line(error))
