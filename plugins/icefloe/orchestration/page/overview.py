"""The document of the overview: every pipeline, those in trouble first."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from icefloe.orchestration.page.dag_state import DagState
from icefloe.orchestration.page.document_cache import Found
from icefloe.orchestration.page.health import Health, State, health_of

__all__ = ["overview_document", "pipeline_row"]

_ORDER: Final = list(State)
_NOTHING: Final = Found()


def overview_document(dags: Iterable[DagState], statuses: Mapping[str, Found], *, now: datetime) -> dict[str, Any]:
    """What the overview shows.

    Args:
        dags: those that the user may see.
        statuses: the ``status.json`` of each pipeline, by DAG id.
        now: of this machine; the browser's clock may differ.
    """
    rows = [pipeline_row(dag, statuses.get(dag.dag_id, _NOTHING)) for dag in dags if not dag.is_backfill]
    rows.sort(key=lambda row: (_ORDER.index(row["state"]), row["dag_id"]))
    counts = Counter(str(row["state"]) for row in rows)
    return {"now": now.isoformat(), "pipelines": rows, "counts": {state: counts[state] for state in _ORDER}}


def pipeline_row(dag: DagState, found: Found) -> dict[str, Any]:
    """One pipeline."""
    status: Mapping[str, Any] = found.value or {}
    pipeline = dag.facts.pipeline
    health = health_of(dag, found.value)
    return {
        "dag_id": dag.dag_id,
        "pipeline": dag.dag_id if pipeline is None else pipeline.name,
        "file": dag.facts.path,
        "table": None if pipeline is None else pipeline.table,
        "branch": None if pipeline is None else pipeline.branch,
        "changes": None if pipeline is None else pipeline.changes,
        "sink": None if pipeline is None else {"type": pipeline.sink.type, "path": pipeline.sink.path},
        "schedule": dag.schedule,
        "is_paused": dag.is_paused,
        **_health(health),
        "checkpoint_sentence": found.sentence,
        "updated_at": status.get("updated_at"),
        "lag": {
            "snapshots": status.get("lag_snapshots"),
            "rows": status.get("lag_rows"),
            "since": status.get("waiting_since"),
        },
        "cursor": _place(status, "cursor"),
        "head": _place(status, "head"),
        "last_batch": _numbered(status.get("last_batch"), status.get("last_committed_at")),
        "open_batch": _numbered(status.get("open_batch"), status.get("open_since")),
        "expiry": status.get("next_expiry"),
        "recent": status.get("recent") or [],
    }


def _health(health: Health) -> dict[str, Any]:
    return {
        "state": health.state.value,
        "needs_somebody": health.state.needs_somebody,
        "sentence": health.sentence,
        "run_id": health.run_id,
        "task_id": health.task_id,
        "try_number": health.try_number,
        "since": None if health.since is None else health.since.isoformat(),
    }


def _place(status: Mapping[str, Any], name: str) -> dict[str, Any]:
    snapshot_id = status.get(f"{name}_snapshot_id")
    return {
        "snapshot_id": None if snapshot_id is None else str(snapshot_id),
        "timestamp": status.get(f"{name}_timestamp"),
    }


def _numbered(number: int | None, at: str | None) -> dict[str, Any] | None:
    return None if number is None else {"number": number, "at": at}
