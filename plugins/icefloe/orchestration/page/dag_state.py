"""Airflow's facts about one of our DAGs, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypedDict

from icefloe.orchestration.tasks.task_documents import PipelineFacts

_UNFINISHED: Final = frozenset({"queued", "running"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """One task of a run.

    Attributes:
        state: Airflow's; None: not scheduled.
        scheduled_at: begin of its last wait for a slot; a task that never had a slot was never queued.
        queued_at: begin of its last wait for a worker. A task that is retried or resumed keeps it until it has a slot.
    """

    task_id: str
    state: str | None
    try_number: int = 0
    max_tries: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    scheduled_at: datetime | None = None
    queued_at: datetime | None = None
    trouble: Mapping[str, object] | None = None
    result: Mapping[str, Any] | None = None

    @property
    def waits_since(self) -> datetime | None:
        """Begin of its wait for a slot or a worker, if any."""
        # Airflow keeps both times of an earlier round: only the one of its state counts.
        return {"scheduled": self.scheduled_at, "queued": self.queued_at}.get(str(self.state))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """One run of a DAG."""

    run_id: str
    state: str
    started_at: datetime | None = None
    ended_at: datetime | None = None
    conf: Mapping[str, object] = field(default_factory=dict)
    tasks: Mapping[str, TaskState] = field(default_factory=dict)

    @property
    def is_unfinished(self) -> bool:
        """True if it is queued or runs."""
        return self.state in _UNFINISHED

    def result(self, task_id: str) -> Mapping[str, Any]:
        """The mapping that a task returned, or an empty one."""
        task = self.tasks.get(task_id)
        return {} if task is None or task.result is None else task.result

    @property
    def batch_number(self) -> int | None:
        """The batch of its plan; None: no plan yet, or no batch."""
        number = self.result("plan").get("batch_number")
        return number if isinstance(number, int) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DagState:
    """One DAG and its latest runs, newest first."""

    dag_id: str
    facts: PipelineFacts
    is_paused: bool = False
    is_broken: bool = False
    is_backfill: bool = False
    schedule: str | None = None
    next_run_at: datetime | None = None
    max_failed_runs: int = 0
    runs: tuple[RunState, ...] = ()

    @property
    def last_run(self) -> RunState | None:
        """The newest run."""
        return self.runs[0] if self.runs else None

    @property
    def last_finished_run(self) -> RunState | None:
        """The newest run that has ended."""
        return next((run for run in self.runs if not run.is_unfinished), None)


class TroubleDocument(TypedDict, total=False):
    """Why a task failed."""

    phase: str
    sentence: str


class DeliveryDocument(TypedDict):
    """The last delivery to the pipeline's sink."""

    url: str
    visible_at: str
    lag_seconds: float | None


class StatusDocument(TypedDict, total=False):
    """The keys that the page reads; see `PipelineStatus`."""

    updated_at: str
    cursor_snapshot_id: str | None
    cursor_timestamp: str | None
    head_snapshot_id: str | None
    head_timestamp: str | None
    lag_snapshots: int | None
    lag_rows: int | None
    waiting_since: str | None
    open_batch: int | None
    open_since: str | None
    open_run: str | None
    owner: str | None
    last_batch: int | None
    last_committed_at: str | None
    trouble: TroubleDocument | None
    next_expiry: object
    pins: object
    recent: list[dict[str, object]]
    last_delivery: DeliveryDocument | None
