"""``status.json``: for the page and the command line; it never decides anything."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict

from icefloe.batch.report import BatchDelivery, BatchReport
from icefloe.documents import LEFT_OUT_IF_NONE, STRICT, SnapshotId
from icefloe.flow import FlowTask
from icefloe.iceberg.step import LoadPart
from icefloe.units import now_text

__all__ = ["PipelineStatus", "Trouble"]

_RECENT: Final = 50
_TASKS: Final = tuple(FlowTask)
_BEFORE_A_BATCH: Final = (FlowTask.WAIT_FOR_SNAPSHOT, FlowTask.PLAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The error of the last task that failed, or of a sensor that cannot look.

    Attributes:
        sentence: says what is wrong and what to do.
        at: ISO 8601.
        is_final: True if retrying cannot help, or no retry is left.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """Time from which ``expire_snapshots`` may remove a snapshot, ISO 8601."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    snapshot_id: SnapshotId
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """The snapshots that ``pin: true`` keeps from expiring.

    Attributes:
        branch: their tags begin with its name.
        up_to_snapshot_id: what was committed since is not pinned yet.
        oldest_at: commit of the oldest, ISO 8601; None if it is gone.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    branch: str
    snapshots: int
    up_to_snapshot_id: SnapshotId | None
    oldest_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentBatch:
    """One committed batch, in a few numbers.

    ``seconds`` include waiting and retries.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    batch: int
    committed_at: str
    route: str
    rows: int
    bytes: int
    seconds: float | None
    dead_letters: Annotated[int | None, LEFT_OUT_IF_NONE] = None

    @classmethod
    def of(cls, report: BatchReport) -> "RecentBatch":
        return cls(
            batch=report.batch_number,
            committed_at=report.committed_at,
            route=report.route.value,
            rows=sum(report.counts.values()),
            bytes=report.bytes_read,
            seconds=report.seconds,
            dead_letters=None if report.delivery is None else report.delivery.dead_letters or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """The status at ``updated_at``. Times are ISO 8601 with offset; the last writer wins.

    Attributes:
        dag_id: None if Airflow never ran the pipeline.
        cursor_snapshot_id: None before the first batch, as are ``last_batch`` and ``last_committed_at``.
        cursor_timestamp: None also if the snapshot expired.
        lag_snapshots: None if the cursor is not in the branch's history.
        lag_rows: rows of files added and deleted; None if a summary does not say.
        owner: of the checkpoint; None: nobody in particular.
        checkpoint_id: names its folders in the shuffle.
        waiting_since: time of the oldest pending commit; None if up to date, or not known.
        load_part: last delivered part of an incomplete initial load.
        trouble: None after the next success.
        next_expiry: of the cursor's snapshot; None if nothing removes it as the table is now.
        pins: None if the pipeline pins none.
        recent: the last batches, oldest first.
        last_delivery: None if the files are the sink.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    pipeline: str
    table: str
    branch: str
    dag_id: str | None = None
    updated_at: str
    cursor_snapshot_id: SnapshotId | None = None
    cursor_timestamp: str | None = None
    head_snapshot_id: SnapshotId | None = None
    head_timestamp: str | None = None
    lag_snapshots: int | None = None
    lag_rows: int | None = None
    waiting_since: str | None = None
    open_batch: int | None = None
    open_since: str | None = None
    open_run: str | None = None
    owner: str | None = None
    checkpoint_id: str | None = None
    load_part: LoadPart | None = None
    last_batch: int | None = None
    last_committed_at: str | None = None
    trouble: Trouble | None = None
    next_expiry: Expiry | None = None
    pins: Annotated[Pins | None, LEFT_OUT_IF_NONE] = None
    recent: tuple[RecentBatch, ...] = ()
    last_delivery: Annotated[BatchDelivery | None, LEFT_OUT_IF_NONE] = None

    def with_trouble(self, trouble: Trouble) -> "PipelineStatus":
        """The status after a task that failed."""
        return replace(self, trouble=trouble, updated_at=trouble.at)

    def trouble_after(self, phase: str, batch_number: int | None) -> Trouble | None:
        """The trouble that is left after the success of a task.

        Args:
            batch_number: a commit may be repeated long after its batch: later trouble stays. None: no batch is later.
        """
        if self.trouble is None or (batch_number is not None and batch_number < self._troubled_batch(self.trouble)):
            return self.trouble
        return None if self.trouble.is_over_after(phase) else self.trouble

    def is_past(self, batch_number: int) -> bool:
        """True if it shows a later batch."""
        return any(each is not None and each > batch_number for each in (self.open_batch, self.last_batch))

    def _troubled_batch(self, trouble: Trouble) -> int:
        """The open batch, or the next one if the task comes before its opening."""
        if self.open_batch is not None:
            return self.open_batch
        last = -1 if self.last_batch is None else self.last_batch
        return last + 1 if trouble.phase in _BEFORE_A_BATCH else last


def with_batch(recent: Iterable[RecentBatch], batch: RecentBatch | None) -> tuple[RecentBatch, ...]:
    """Replaces an earlier entry of its number."""
    by_number = {each.batch: each for each in (*recent, *([] if batch is None else [batch]))}
    return tuple(by_number[number] for number in sorted(by_number)[-_RECENT:])
