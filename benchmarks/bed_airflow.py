"""A batch as Airflow runs it, for the benchmark of whole runs; prints one JSON object.

``python -m benchmarks.bed_airflow FOLDER PIPELINE AFTER UP_TO`` runs the backfill DAG of a pipeline file for a range of
snapshots, as `airflow dags test` does: every task in this process, and each Spark phase as a spark-submit of its own.
The seconds are those of the run of the DAG; what Airflow's start takes before, its database and its API, is left out.
"""

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from demo.local_airflow import LocalAirflow

__all__ = ["run_backfill"]

_NOTHING: Final = """
from airflow.sdk import dag, task

@dag(schedule=None)
def nothing():
    @task
    def wait_for_the_api():
        pass

    wait_for_the_api()

nothing()
"""
"""The first task of a process makes the API by which tasks and Airflow talk. Where Airflow serves, it is there."""
_COUNTS: Final = ("insert", "delete", "update_before", "update_after")


def main(arguments: list[str]) -> int:
    folder, pipeline, after, up_to = arguments
    sys.stdout.write(json.dumps(run_backfill(Path(folder), Path(pipeline), after=after, up_to=up_to)) + "\n")
    return 0


def run_backfill(folder: Path, pipeline: Path, *, after: str, up_to: str) -> dict[str, Any]:
    """The changes by type, the wall seconds of the run and of each task that ran.

    Args:
        folder: of everything that Airflow writes.
        pipeline: the file, whose backfill DAG is run.
        after: id of the snapshot after which the range begins.
        up_to: id of its last snapshot.
    """
    airflow = LocalAirflow(folder)
    dags = folder / "dags"
    dags.mkdir(parents=True)
    (dags / "nothing.py").write_text(_NOTHING)
    airflow.start(pipeline)
    began: list[str] = []
    airflow.run("nothing", on_task=began.append)
    began.clear()
    started = perf_counter()
    finished = airflow.run(
        f"{pipeline.stem}__backfill",
        on_task=began.append,
        conf={"after_snapshot_id": after, "up_to_snapshot_id": up_to},
    )
    wall_seconds = perf_counter() - started
    tasks = {task.task_id: task for task in finished.get_task_instances()}
    report = tasks["commit"].xcom_pull(task_ids="commit")
    return {
        **{count: report["counts"][count] for count in _COUNTS},
        "wall_seconds": wall_seconds,
        "tasks": {task_id: tasks[task_id].duration for task_id in began},
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
