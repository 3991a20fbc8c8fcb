"""The document of one pipeline: its batches, newest first, and its backfills."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from icefloe.orchestration.page.document_cache import Found
from icefloe.orchestration.page.views.batch_entry import committed_entry, open_entry, runs_by_batch
from icefloe.orchestration.page.views.dag_state import DagState, RunState
from icefloe.orchestration.page.views.overview import pipeline_row
from icefloe.orchestration.page.views.status_document import StatusDocument

__all__ = ["newest_batch", "pipeline_document", "shown_batches"]

PAGE_SIZE: Final = 25


def newest_batch(dag: DagState, status: StatusDocument | None) -> int | None:
    """The highest number of a committed batch, as far as the status or Airflow's runs know it."""
    last = status.get("last_batch") if status else None
    if last is not None:
        return int(last)
    committed = [run.result("commit").get("batch_number") for run in dag.runs]
    return max((number for number in committed if isinstance(number, int)), default=None)


def shown_batches(newest: int | None, before: int | None) -> list[int]:
    """The numbers of one page of batches, newest first.

    >>> shown_batches(2, None)
    [2, 1, 0]
    >>> shown_batches(100, 30)[:2], len(shown_batches(100, 30))
    ([29, 28], 25)
    """
    last = -1 if newest is None else newest if before is None else min(newest, before - 1)
    return list(range(last, max(-1, last - PAGE_SIZE), -1))


def pipeline_document(
    dag: DagState,
    status: Found,
    look: Found | None,
    reports: Mapping[int, Found],
    backfills: Iterable[DagState],
    *,
    now: datetime,
) -> dict[str, Any]:
    """The document of a pipeline.

    Args:
        dag: with more runs than the overview needs.
        status: its ``status.json``, as of now if its catalog answers.
        look: the catalog's answer.
        reports: of the batches that are shown, newest first.
        backfills: its backfill DAG, if the user may see it.
        now: of this machine.
    """
    runs = runs_by_batch(dag.runs)
    row = pipeline_row(dag, status, look, now=now)
    opened = row["open_batch"]
    entries = [_entry(number, found, runs.get(number, [])) for number, found in reports.items()]
    if opened is not None and opened["number"] not in reports:
        entries.insert(0, open_entry(opened["number"], opened["at"], runs.get(opened["number"], [])))
    oldest = min(reports, default=0)
    return {
        "now": now.isoformat(),
        "is_looking": row["is_looking"],
        "pipeline": row,
        "batches": entries,
        "next_before": oldest if oldest > 0 else None,
        "backfills": [entry for each in backfills for entry in backfill_rows(each)],
    }


def backfill_rows(dag: DagState) -> list[dict[str, Any]]:
    """The runs of a backfill DAG, newest first."""
    return [_backfill(dag.dag_id, run) for run in dag.runs]


def _entry(number: int, found: Found, runs: list[RunState]) -> dict[str, Any]:
    if found.value is None:
        run_id = runs[0].run_id if runs else None
        return {"batch": number, "state": "unknown", "sentence": found.sentence, "run_id": run_id}
    return committed_entry(found.value, runs)


def _backfill(dag_id: str, run: RunState) -> dict[str, Any]:
    failed = next((task for task in run.tasks.values() if task.state == "failed"), None)
    trouble = None if failed is None or failed.trouble is None else failed.trouble.get("sentence")
    return {
        "dag_id": dag_id,
        "run_id": run.run_id,
        "state": run.state,
        "range": {key: value for key, value in run.conf.items() if value not in (None, "")},
        "started_at": None if run.started_at is None else run.started_at.isoformat(),
        "ended_at": None if run.ended_at is None else run.ended_at.isoformat(),
        "backfill_id": run.result("plan").get("backfill_id"),
        "was_delivered_before": bool(run.result("plan").get("was_delivered_before")),
        "counts": run.result("commit").get("counts"),
        "sentence": trouble,
    }
