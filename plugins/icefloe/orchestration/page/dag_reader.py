"""Reads our DAGs from Airflow's database."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Self, TypeAlias

from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import func, select
from sqlalchemy.orm import Session, selectinload

from icefloe.orchestration.tasks.failures import TROUBLE
from icefloe.orchestration.tasks.task_documents import PipelineFacts

_UNFINISHED: Final = frozenset({"queued", "running"})
_ENDED: Final = frozenset({"success", "skipped", "failed", "upstream_failed", "removed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """One task of a run."""

    task_id: str
    state: str | None  # Airflow's; None: not scheduled
    try_number: int = 0
    max_tries: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    scheduled_at: datetime | None = None  # begin of its last wait for a slot; without a slot it is never queued
    queued_at: datetime | None = None  # begin of its last wait for a worker; a retry keeps it until it has a slot
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

    def of_group(self, group: str) -> Self:
        """The part of a task group, whose tasks lose their prefix. Other tasks do not decide how it ended."""
        if not group:
            return self
        own = {task_id.removeprefix(f"{group}."): task for task_id, task in self.tasks.items()}
        tasks = {name: replace(own[name], task_id=name) for name in own if f"{group}.{name}" in self.tasks}
        states, all_states = ({task.state for task in each.values()} for each in (tasks, self.tasks))
        # A run that was timed out fails without a failed task.
        is_failed = "failed" in states or (self.state == "failed" and "failed" not in all_states)
        ended = "failed" if is_failed else "success"
        return replace(self, tasks=tasks, state=ended if states <= _ENDED else self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class DagState:
    """One DAG, or a task group in a DAG of somebody's own, and its latest runs, newest first."""

    dag_id: str
    group: str = ""
    facts: PipelineFacts
    is_paused: bool = False
    is_broken: bool = False
    is_backfill: bool = False
    schedule: str | None = None
    next_run_at: datetime | None = None
    max_failed_runs: int = 0
    runs: tuple[RunState, ...] = ()

    @property
    def key(self) -> str:
        """The id, with the group if there is one."""
        return f"{self.dag_id}/{self.group}".rstrip("/")

    @property
    def last_run(self) -> RunState | None:
        """The newest run."""
        return self.runs[0] if self.runs else None


StatusDocument: TypeAlias = Mapping[str, Any]
"""The JSON of a `PipelineStatus`."""


def _task_documents(data: Any) -> dict[str, str]:
    documents = {}
    for task in data.get("dag", {}).get("tasks", ()):
        # Airflow wraps what it serializes: {"__type": "operator", "__var": {...}}.
        fields = task.get("__var", task)
        if isinstance(fields.get("doc_json"), str):
            documents[fields["task_id"]] = fields["doc_json"]
    return documents


_TAG: Final = "icefloe"
_RESULT: Final = "return_value"
_RUNS: Final = 3


class DagReader:
    """Reads any number of DAGs by a few queries; a pipeline's facts once per version of its DAG."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Mapping[str, PipelineFacts]]] = {}

    def dag_ids(self, session: Session) -> list[str]:
        """All DAGs that are ours."""
        return list(session.scalars(_ours(select(DagModel.dag_id))))

    def dags(self, session: Session, dag_ids: Collection[str], *, runs: int = _RUNS) -> list[DagState]:
        """Our DAGs among the given ones, by id, with their newest runs."""
        models = session.scalars(_ours(select(DagModel)).options(selectinload(DagModel.tags))).all()
        models = sorted((model for model in models if model.dag_id in dag_ids), key=lambda model: model.dag_id)
        ours = [model.dag_id for model in models]
        facts = self._facts(session, ours)
        tags = {model.dag_id: {tag.name for tag in model.tags} for model in models}
        by_dag = _runs(session, ours, runs)
        return [
            DagState(
                dag_id=model.dag_id,
                group=group,
                facts=of_group,
                is_paused=model.is_paused,
                is_broken=not group and "broken" in tags[model.dag_id],
                is_backfill=not group and "backfill" in tags[model.dag_id],
                schedule=None if model.timetable_summary == "None" else model.timetable_summary,
                next_run_at=model.next_dagrun_create_after,
                max_failed_runs=model.max_consecutive_failed_dag_runs,
                runs=tuple(run.of_group(group) for run in by_dag[model.dag_id]),
            )
            for model in models
            for group, of_group in facts[model.dag_id].items()
        ]

    def _facts(self, session: Session, dag_ids: list[str]) -> Mapping[str, Mapping[str, PipelineFacts]]:
        """The facts of each DAG by task group; empty ones if never serialized."""
        # Parsing 200 serialized DAGs takes a second, comparing their hashes a millisecond.
        model, facts = SerializedDagModel, dict[str, Mapping[str, PipelineFacts]]()
        hashes = select(model.dag_id, model.dag_hash).where(model.dag_id.in_(dag_ids)).order_by(model.created_at)
        for dag_id, dag_hash in {row.dag_id: row.dag_hash for row in session.execute(hashes)}.items():
            known = self._known.get(dag_id)
            if known is None or known[0] != dag_hash:
                serialized = model.get(dag_id, session=session)
                of_dag = {} if serialized is None else PipelineFacts.by_group(_task_documents(serialized.data))
                known = self._known[dag_id] = dag_hash, of_dag
            facts[dag_id] = known[1]
        return {dag_id: facts.get(dag_id) or {"": PipelineFacts()} for dag_id in dag_ids}

    def run(self, session: Session, dag_id: str, run_id: str) -> RunState | None:
        """One run, or None."""
        row = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        return None if row is None else next(iter(_with_tasks(session, [row])))


def _ours(rows: Any) -> Any:
    return rows.join(DagTag, DagTag.dag_id == DagModel.dag_id).where(DagTag.name == _TAG, DagModel.is_stale.is_(False))


def _runs(session: Session, dag_ids: list[str], newest: int) -> Mapping[str, list[RunState]]:
    rank = func.row_number().over(partition_by=DagRun.dag_id, order_by=DagRun.id.desc()).label("rank")
    ranked = select(DagRun.id, rank).where(DagRun.dag_id.in_(dag_ids)).subquery()
    chosen = select(DagRun).join(ranked, ranked.c.id == DagRun.id).where(ranked.c.rank <= newest)
    by_dag: dict[str, list[RunState]] = defaultdict(list)
    rows = session.scalars(chosen.order_by(DagRun.id.desc())).all()
    for row, run in zip(rows, _with_tasks(session, rows), strict=True):
        by_dag[row.dag_id].append(run)
    return by_dag


def _with_tasks(session: Session, rows: Iterable[Any]) -> list[RunState]:
    runs = list(rows)
    ids = {(run.dag_id, run.run_id): run.id for run in runs}
    values = _xcoms(session, list(ids.values()))
    wanted = TaskInstance.run_id.in_({run_id for _, run_id in ids}) & TaskInstance.dag_id.in_({dag for dag, _ in ids})
    facts = (
        TaskInstance.task_id, TaskInstance.state, TaskInstance.try_number, TaskInstance.max_tries,
        TaskInstance.start_date.label("started_at"), TaskInstance.end_date.label("ended_at"),
        TaskInstance.scheduled_dttm.label("scheduled_at"), TaskInstance.queued_dttm.label("queued_at"),
    )  # fmt: skip
    tasks: dict[int, dict[str, TaskState]] = defaultdict(dict)
    for dag_id, run_id, *found in session.execute(
        select(TaskInstance.dag_id, TaskInstance.run_id, *facts).where(wanted)
    ):
        task = dict(zip((fact.key for fact in facts), found, strict=True))
        number, task_id = ids.get((dag_id, run_id)), task["task_id"]
        # Of a mapped task of somebody's own, one that failed decides.
        if number is not None and not (task_id in tasks[number] and tasks[number][task_id].state == "failed"):
            passed_on = values.get((number, task_id), {})
            trouble, result = _mapping(passed_on.get(TROUBLE)), _mapping(passed_on.get(_RESULT))
            tasks[number][task_id] = TaskState(**task, trouble=trouble, result=result)
    return [
        RunState(
            run_id=run.run_id,
            state=str(run.state),
            started_at=run.start_date,
            conf=run.conf or {},
            tasks=tasks[run.id],
        )
        for run in runs
    ]


def _xcoms(session: Session, run_ids: list[int]) -> Mapping[tuple[int, str], Mapping[str, object]]:
    values: dict[tuple[int, str], dict[str, object]] = defaultdict(dict)
    columns = (XComModel.dag_run_id, XComModel.task_id, XComModel.key, XComModel.value)
    for row in session.execute(
        select(*columns).where(XComModel.dag_run_id.in_(run_ids), XComModel.key.in_((_RESULT, TROUBLE)))
    ):
        values[row.dag_run_id, row.task_id][row.key] = row.value
    return values


def _mapping(value: object) -> Mapping[str, object] | None:
    return value if isinstance(value, dict) else None
