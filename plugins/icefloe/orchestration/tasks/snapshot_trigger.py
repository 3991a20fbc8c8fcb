"""The trigger that wakes a pipeline for a new snapshot."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow.triggers.base import BaseTrigger, TriggerEvent

from icefloe.errors import IcefloeError, TerminalError, TransientError, one_line
from icefloe.flow import FlowTask
from icefloe.orchestration.tasks.task_documents import pipeline_from_mapping
from icefloe.patience import Lanes
from icefloe.pipeline.model import Pipeline
from icefloe.redacted_output import filter_root_logs, outgoing_errors

if TYPE_CHECKING:
    from icefloe.batch.open.next_batch import Work


_FAILED_LOOKS_A_REPORT: Final = 10
"""A fault that stays the same is reported once in so many looks."""

_LOOKS_AT_ONCE: Final = 8
"""Looks at one catalog and store."""

_WAITING: Final = FlowTask.WAIT_FOR_SNAPSHOT.value


class PipelineSnapshotTrigger(BaseTrigger):
    """Fires once: when the pipeline has work, when its deadline has passed, or when a look failed for good.

    The event has the keys of the Iceberg provider's trigger, ``table``, ``branch``, ``snapshot_id`` and
    ``previous_snapshot_id``, and ``is_due``: False if the deadline passed. A table without a snapshot may be due, too:
    a pipeline may begin with ``from_now``. A failure carries ``error`` and ``is_terminal`` instead. The event only
    wakes the pipeline: the checkpoint decides what is read. After a transient error it looks again until the deadline,
    and the pipeline's status says what is wrong. Only a missing table is looked for no longer than some minutes.

    Args:
        deadline: ISO 8601 with offset; absolute, so that a restart of the triggerer keeps it.
        first_look: as `deadline`; None: at once.
    """

    def __init__(
        self, *, pipeline: Mapping[str, object], deadline: str, first_look: str | None = None, **kwargs: object
    ) -> None:
        super().__init__(**kwargs)
        self._fault: TransientError | None = None
        try:
            self._pipeline = pipeline_from_mapping(pipeline)
        except Exception as error:  # noqa: BLE001 - it would end the triggerer, and so the triggers of all DAGs
            self._fault = _unreadable(error)
        else:
            self.table, self.branch = self._pipeline.table, self._pipeline.branch
            self.poll_interval = self._pipeline.poll_interval
        self.pipeline = dict(pipeline)
        self.deadline = deadline
        self.first_look = first_look
        self._failed_looks = 0
        self._last_failure: str | None = None
        self._absent_since: datetime | None = None
        # The sensor's own look, or an earlier try, may have left its fault in the status.
        self._may_be_in_trouble = True

    def serialize(self) -> tuple[str, dict[str, object]]:
        """The path and arguments to make this trigger."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {"pipeline": self.pipeline, "deadline": self.deadline, "first_look": self.first_look}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Polls until there is work or the deadline has passed."""
        if self._fault is not None:
            yield TriggerEvent({"error": self._fault.sentence, "is_terminal": False})
            return
        try:
            with outgoing_errors():
                async with asyncio.timeout(_seconds_until(self.deadline)) as timeout:
                    event = await self._news()
        except TimeoutError:
            # A client that gave up on a catalog raises TimeoutError as well.
            if not timeout.expired():
                raise
            event = self._event_at_deadline()
        except IcefloeError as error:
            event = TriggerEvent({"error": error.sentence, "is_terminal": isinstance(error, TerminalError)})
        # Out here: inside the timeout, the deadline would also count while Airflow takes its time with the event.
        yield event

    async def _news(self) -> TriggerEvent:
        lane = _lane(self._pipeline)
        if self.first_look is not None:
            await asyncio.sleep(max(_seconds_until(self.first_look), 0))
        while (work := await self._look(lane)) is None:
            await asyncio.sleep(self.poll_interval)
        return self._event(snapshot_id=work.head_snapshot_id, is_due=True)

    async def _look(self, lane: str) -> "Work | None":
        """A look without memory or thread is transient."""
        try:
            return await _lanes().run(lane, self._due_work)
        except MemoryError as cause:
            # This is the event loop, in which nothing may wait for a store: the fault is only in the log.
            self._count_failure(
                TransientError(
                    f"the triggerer has no memory left ({one_line(cause) or 'MemoryError'}): give it more, or allow it "
                    "more threads"
                )
            )
            return None

    def _event_at_deadline(self) -> TriggerEvent:
        if self._last_failure is not None:
            return TriggerEvent({"error": self._last_failure, "is_terminal": False})
        return self._event(snapshot_id=None, is_due=False)

    def _event(self, *, snapshot_id: int | None, is_due: bool) -> TriggerEvent:
        place = {"table": self.table, "branch": self.branch}
        return TriggerEvent({**place, "snapshot_id": snapshot_id, "previous_snapshot_id": None, "is_due": is_due})

    def _due_work(self) -> "Work | None":
        # It runs in a thread of its lane, and so does the import, which would hold up every other trigger for a second.
        from icefloe.orchestration.tasks.calls import absent_since, end_trouble, look
        from icefloe.orchestration.tasks.failures import report_trouble

        filter_root_logs()
        try:
            work = look(self._pipeline)
        except TransientError as error:
            self._absent_since = absent_since(error, self._absent_since)
            if self._count_failure(error):
                self._may_be_in_trouble = True
                report_trouble(self._pipeline, _WAITING, error.sentence)
            return None
        self._failed_looks, self._last_failure, self._absent_since = 0, None, None
        if work.is_due:
            return work  # the plan that follows ends the trouble
        if self._may_be_in_trouble:
            end_trouble(self._pipeline, _WAITING)
            self._may_be_in_trouble = False
        return None

    def _count_failure(self, error: TransientError) -> bool:
        is_news = error.sentence != self._last_failure or self._failed_looks % _FAILED_LOOKS_A_REPORT == 0
        self._failed_looks, self._last_failure = self._failed_looks + 1, error.sentence
        if is_news:
            self.log.warning("look %d in a row at %s failed, looking again: %s", self._failed_looks, self.table, error)
        return is_news


def _unreadable(error: Exception) -> TransientError:
    reason = error.sentence if isinstance(error, IcefloeError) else f"{type(error).__name__}: {one_line(error)}"
    return TransientError(
        f"the triggerer cannot read the pipeline that a worker gave it ({reason}): have one release of icefloe, and "
        "the packages of its sinks, where triggerer and workers run, and restart the triggerer"
    )


def _seconds_until(time: str) -> float:
    return (datetime.fromisoformat(time) - datetime.now(UTC)).total_seconds()


@cache
def _lanes() -> Lanes:
    """The lanes of this process: all triggers look from one event loop."""
    return Lanes(threads=_LOOKS_AT_ONCE, name="icefloe-looks")


def _lane(pipeline: Pipeline) -> str:
    """A pipeline's lane: its catalog and its checkpoint's store, either of which may be dead."""
    store = urlsplit(pipeline.checkpoint_url)
    return f"{pipeline.catalog} {store.scheme}://{store.netloc} {pipeline.storage_conn_id}"
