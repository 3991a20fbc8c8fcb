"""The DAG that sweeps and purges on a schedule."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from airflow.sdk import DAG, task, timezone

from icefloe.orchestration.tasks.failures import airflow_failures
from icefloe.pipeline.pipeline_file import pipeline_paths

__all__ = ["upkeep_dag"]

_PAGE: Final = """Deletes the files that dead runs of each pipeline left (`sweep`).
Removes old marks of deleted rows from sinks with `purge_after` (`purge`).
Both may run next to batches. A red task is about one pipeline file; its log says what to do.
"""
_RETRIES: Final = 3
_AT_ONCE: Final = 4
"""Batches need workers too."""


def upkeep_dag(folder: Path, *, schedule: str | None) -> DAG:
    """The DAG ``icefloe_upkeep``, with two mapped tasks for each pipeline file of a folder.

    Parsing reads no pipeline file: a broken one is red when its tasks run. If ``schedule`` is None, only people start
    the DAG.
    """
    with DAG(
        "icefloe_upkeep",
        schedule=schedule,
        start_date=timezone.datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        max_active_tasks=_AT_ONCE,
        # The schedule is the one switch.
        is_paused_upon_creation=False,
        default_args={"retries": _RETRIES},
        description="Deletes what dead runs left, and old marks of deleted rows",
        doc_md=_PAGE,
        tags=["upkeep"],  # the page takes a DAG with the tag icefloe for a pipeline
    ) as dag:
        files = [path.name for path in pipeline_paths(folder)]
        for name in ("sweep", "purge"):
            _add_mapped(name, folder, files)
    return dag


def _add_mapped(name: str, folder: Path, files: Sequence[str]) -> None:
    @task(task_id=name, doc_md=_PAGE, map_index_template="{{ task.op_kwargs['file'] }}")
    def call(file: str) -> int:
        with airflow_failures(f"{name} of {file}"):
            from icefloe.orchestration.tasks import calls

            return int(getattr(calls, f"{name}_pipeline")(folder / file))

    call.expand(file=files)
