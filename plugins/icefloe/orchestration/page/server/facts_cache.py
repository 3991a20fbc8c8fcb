"""Facts of pipeline files, read from the serialized DAGs in Airflow's database once per version of a DAG."""

from collections.abc import Mapping
from threading import Lock
from typing import Any

from airflow.models.serialized_dag import SerializedDagModel
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from icefloe.orchestration.tasks.pipeline_facts import PipelineFacts


class FactsCache:
    """Keeps the facts of DAGs: parsing 200 serialized DAGs takes a second, comparing their hashes a millisecond."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, PipelineFacts]] = {}
        self._lock = Lock()

    def of(self, session: Session, dag_ids: list[str]) -> Mapping[str, PipelineFacts]:
        """The facts of each DAG; empty if it was never serialized."""
        hashes = _latest_hashes(session, dag_ids)
        with self._lock:
            known = dict(self._known)
        # Parsed while nothing is locked: two requests may parse the same DAG, but none waits for the other.
        changed = [dag_id for dag_id, dag_hash in hashes.items() if known.get(dag_id, ("",))[0] != dag_hash]
        for dag_id in changed:
            serialized = SerializedDagModel.get(dag_id, session=session)
            facts = PipelineFacts() if serialized is None else PipelineFacts.of(_task_documents(serialized.data))
            known[dag_id] = (hashes[dag_id], facts)
        with self._lock:
            self._known = known
        return {dag_id: known[dag_id][1] if dag_id in known else PipelineFacts() for dag_id in dag_ids}


def _latest_hashes(session: Session, dag_ids: list[str]) -> dict[str, str]:
    model = SerializedDagModel
    latest = (
        select(model.dag_id, func.max(model.created_at).label("created_at"))
        .where(model.dag_id.in_(dag_ids))
        .group_by(model.dag_id)
        .subquery()
    )
    rows = select(model.dag_id, model.dag_hash).join(
        latest, (latest.c.dag_id == model.dag_id) & (latest.c.created_at == model.created_at)
    )
    return {row.dag_id: row.dag_hash for row in session.execute(rows)}


def _task_documents(data: Any) -> dict[str, str]:
    """The ``doc_json`` of the tasks of a serialized DAG, by task id."""
    documents = {}
    for task in data.get("dag", {}).get("tasks", ()):
        # Airflow wraps what it serializes: {"__type": "operator", "__var": {...}}.
        fields = task.get("__var", task)
        if isinstance(fields.get("doc_json"), str):
            documents[fields["task_id"]] = fields["doc_json"]
    return documents
