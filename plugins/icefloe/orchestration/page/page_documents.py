"""Every document of the page, and its reads."""

import json
import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import HTTPException

from icefloe.batch.context.references import open_table
from icefloe.batch.status import TableFacts
from icefloe.documents import dump_document
from icefloe.iceberg.history.history import History
from icefloe.orchestration.connections import resolve_credentials
from icefloe.orchestration.page.batch_page import batch_document, runs_by_batch
from icefloe.orchestration.page.checkpoint_reader import CheckpointReader, DocumentCache, Found, Look
from icefloe.orchestration.page.dag_reader import DagReader, DagState
from icefloe.orchestration.page.pipeline_page import (
    newest_batch,
    overview_document,
    pipeline_document,
    pipeline_row,
    shown_batches,
)
from icefloe.pipeline.model import Pipeline
from icefloe.units import natural, now_text, time_of_ms

_LOOK_SECONDS: Final = 30.0
_THREADS: Final = 2


def table_watch() -> DocumentCache:
    """Looks through the catalogs in the background, on demand. No request waits for one, and none holds up another."""
    return DocumentCache(fresh_seconds=_LOOK_SECONDS, deadline_seconds=0, threads=_THREADS)


def table_looks(pipelines: Mapping[str, Pipeline], statuses: Mapping[str, Found]) -> dict[str, Look]:
    """The look at each pipeline's table, unless nobody knows the cursor."""
    looks = {}
    for key, pipeline in pipelines.items():
        written = statuses[key].value or {}
        if written or statuses[key].sentence is None:
            # With the cursor in the name: after a batch, a look from before it is not an old answer but none.
            cursor = f"{written.get('cursor_snapshot_id')} {written.get('load_part')}"
            looks[key] = Look(
                name=f"{pipeline.table} of {key} since {cursor}",
                read=partial(_look, pipeline, written),
                lane=str(pipeline.catalog),
            )
    return looks


def as_of_now(status: Found, look: Found) -> Found:
    """A status with lag and expiry of a later look; facts about the checkpoint stay.

    >>> as_of_now(Found(value={"last_batch": 7, "lag_snapshots": 0}), Found(value={"lag_snapshots": 2})).value
    {'last_batch': 7, 'lag_snapshots': 2}
    """
    if look.value is None or status.value is None:
        return status
    if str(status.value.get("updated_at", "")) > str(look.value.get("updated_at", "")):
        return status
    return Found(value={**status.value, **look.value}, sentence=status.sentence)


def _look(pipeline: Pipeline, status: Mapping[str, Any]) -> dict[str, Any]:
    expanded, history = _open(pipeline)
    cursor = status.get("cursor_snapshot_id")
    facts = TableFacts.of(
        history,
        branch=expanded.branch,
        cursor_snapshot_id=None if cursor is None else int(cursor),
        cursor_timestamp=status.get("cursor_timestamp"),
        is_loading=bool(status.get("load_part")),
    )
    return {**json.loads(dump_document(facts)), "updated_at": now_text()}


_FRESH_SECONDS: Final = 10.0
_DEADLINE_SECONDS: Final = 15.0
_MOST: Final = 1_000
_FIGURES: Final = {"added-records": "added_rows", "deleted-records": "deleted_rows", "added-files-size": "added_bytes"}


def history_document(history: History, branch: str) -> dict[str, Any]:
    """The newest snapshots of a branch, newest first, and what comes before them."""
    head = history.head(branch)
    lineage = [] if head is None else history.lineage(head.snapshot_id)
    listed = [
        {
            "snapshot_id": str(snapshot.snapshot_id),
            "at": time_of_ms(snapshot.timestamp_ms),
            "operation": None if snapshot.summary is None else snapshot.summary.operation.value,
            **{ours: natural(figures.get(theirs, "")) for theirs, ours in _FIGURES.items()},
        }
        for snapshot in lineage[:_MOST]
        for figures in ({} if snapshot.summary is None else snapshot.summary.additional_properties,)
    ]
    return {
        "snapshots": listed,
        "older_snapshots": len(lineage) - len(listed),  # exist, but are not listed
        # False if the oldest names an expired parent. PyIceberg's expiry leaves no such name; then plan finds the gap.
        "reaches_beginning": not lineage or lineage[-1].parent_snapshot_id is None,
    }


def _open(pipeline: Pipeline) -> tuple[Pipeline, History]:
    expanded = pipeline.expanded(os.environ)
    return expanded, History.of(open_table(expanded, resolve_credentials(expanded)))


def _load(pipeline: Pipeline) -> dict[str, Any]:
    expanded, history = _open(pipeline)
    return history_document(history, expanded.branch)


_RUNS: Final = 100
_SUFFIX: Final = "__backfill"


class PageDocuments:
    """Reads and composes the documents; rights are checked before."""

    def __init__(self) -> None:
        self.dags = DagReader()
        self._checkpoints = CheckpointReader()
        self._histories = DocumentCache(fresh_seconds=_FRESH_SECONDS, deadline_seconds=_DEADLINE_SECONDS)
        self._tables = table_watch()

    def with_backfills(self, dag_id: str) -> tuple[str, str]:
        """The ids of a DAG and its backfill DAG, whose rights decide whether the page lists backfills."""
        return dag_id, f"{dag_id}{_SUFFIX}"

    def overview(self, session: SessionDep, permitted: Collection[str]) -> dict[str, Any]:
        """Every pipeline whose DAG is permitted."""
        dags = self.dags.dags(session, permitted)
        pipelines = {dag.key: dag.facts.pipeline for dag in dags if dag.facts.pipeline and not dag.is_backfill}
        statuses, looks = self._statuses(pipelines)
        return overview_document(dags, statuses, looks, now=datetime.now(UTC))

    def pipeline(
        self, session: SessionDep, dag_id: str, permitted: Collection[str], *, group: str | None, before: int | None
    ) -> dict[str, Any]:
        """One pipeline and a page of batches; for a backfill DAG, only the backfills; of several groups, each one."""
        dag, *others = self._dags(session, dag_id, group)
        if others:
            return self.overview(session, {dag_id})
        if dag.is_backfill:
            return pipeline_document(dag, Found(), None, {}, [dag], now=datetime.now(UTC)) | {"is_backfill": True}
        status, look = self._status(dag)
        numbers = shown_batches(newest_batch(dag, status.value), before)
        pipeline = dag.facts.pipeline
        reports = {} if pipeline is None else self._checkpoints.reports(pipeline, numbers)
        backfill_ids = {f"{dag_id}{_SUFFIX}"} & set(permitted)
        backfills = self.dags.dags(session, backfill_ids, runs=_RUNS) if backfill_ids else []
        return pipeline_document(dag, status, look, reports, backfills, now=datetime.now(UTC))

    def batch(self, session: SessionDep, dag_id: str, number: int, group: str | None = None) -> dict[str, Any]:
        """One batch of a pipeline."""
        dag = self._dags(session, dag_id, group)[0]
        if dag.is_backfill:
            raise HTTPException(404, f"{dag_id} has backfills alone, each with batches of its own: look at its runs")
        status, _ = self._status(dag)
        found, phases = self._read(dag, number, None)
        runs = runs_by_batch(dag.runs).get(number, [])
        document = batch_document(dag, number, runs, status.value, found, phases, now=datetime.now(UTC))
        if found.value is None and document["run"] is None and (status.value or {}).get("open_batch") != number:
            raise HTTPException(404, f"{dag_id} has no batch {number}: {found.sentence or 'it was never opened'}")
        return document

    def run(self, session: SessionDep, dag_id: str, run_id: str, group: str | None = None) -> dict[str, Any]:
        """The batch of one run; of several groups, each one."""
        dag, *others = self._dags(session, dag_id, group)
        run = self.dags.run(session, dag_id, run_id)
        if run is None:
            raise HTTPException(404, f"{dag_id} has no run {run_id!r}")
        if others:
            return self.overview(session, {dag_id})
        run = run.of_group(dag.group)
        found, phases = self._read(dag, run.batch_number, run.result("plan").get("backfill_id"))
        status, _ = self._status(dag)
        return batch_document(dag, run.batch_number, [run], status.value, found, phases, now=datetime.now(UTC))

    def snapshots(self, session: SessionDep, dag_id: str) -> dict[str, Any]:
        """The history of a pipeline's table."""
        dag = self._dags(session, dag_id)[0]
        found, pipeline = Found(), dag.facts.pipeline
        if pipeline is not None:
            name = f"the history of {pipeline.table} ({pipeline.name})"
            found = self._histories.get({"": Look(name=name, read=partial(_load, pipeline))})[""]
        return {
            "now": datetime.now(UTC).isoformat(),
            "pipeline": pipeline_row(dag, *self._status(dag), now=datetime.now(UTC)),
            "backfill_dag_id": f"{dag.dag_id.removesuffix(_SUFFIX)}{_SUFFIX}",
            "sentence": found.sentence,
            **(found.value or {"snapshots": []}),
        }

    def _dags(self, session: SessionDep, dag_id: str, group: str | None = None) -> list[DagState]:
        dags = [dag for dag in self.dags.dags(session, {dag_id}, runs=_RUNS) if group in (None, dag.group)]
        if dags:
            return dags
        raise HTTPException(404, f"{dag_id!r} is no pipeline of icefloe: its DAG has no tag icefloe, or is gone")

    def _status(self, dag: DagState) -> tuple[Found, Found | None]:
        if dag.facts.pipeline is None or dag.is_backfill:
            return Found(), None
        statuses, looks = self._statuses({dag.key: dag.facts.pipeline})
        return statuses[dag.key], looks.get(dag.key)

    def _statuses(self, pipelines: Mapping[str, Pipeline]) -> tuple[dict[str, Found], dict[str, Found]]:
        written = self._checkpoints.statuses(pipelines)
        looks = self._tables.get(table_looks(pipelines, written))
        return {key: as_of_now(found, looks.get(key, Found())) for key, found in written.items()}, looks

    def _read(self, dag: DagState, number: int | None, backfill_id: str | None) -> tuple[Found, list[dict[str, Any]]]:
        """The report of a batch, otherwise its phases."""
        pipeline = dag.facts.pipeline
        # A right to the runs of backfills is none to the batches of the pipeline.
        if pipeline is None or number is None or (dag.is_backfill and backfill_id is None):
            return Found(), []
        report = self._checkpoints.reports(pipeline, [number], backfill_id=backfill_id)[number]
        phases = [] if report.value else self._checkpoints.phases(pipeline, number, backfill_id=backfill_id)
        return report, phases
