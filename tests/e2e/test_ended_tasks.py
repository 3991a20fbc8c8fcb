"""Tasks that people or machines end while their Spark job runs: the job ends too, and the next run takes over.

The files of the table are pipes that nobody writes to, so each job hangs in its Python worker until it is ended.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from icefloe.pipeline.model import Pipeline
from support.pipelines.lake import Lake
from support.pipelines.leftovers import left_in_shuffle
from support.servers.daemons import Daemons, wait_until
from support.servers.dag_runs import DagRuns

pytestmark = [pytest.mark.daemons, pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800)]

REPOSITORY = Path(__file__).parents[2]
SECONDS = 300
DAG_FILE = """# Airflow reads only files with its name in them.
from datetime import timedelta
from icefloe.orchestration.dags.dag_factory import make_dags
from pathlib import Path

made = make_dags(Path(__file__).parent / "pipelines")
made["flights"].dagrun_timeout = timedelta(hours=12)  # as a cluster policy may do
made["flights"].max_consecutive_failed_dag_runs = 0
globals().update(made)
"""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake.of_daemons(tmp_path, DAG_FILE)
    made.append((1, "AA"))
    made.replace_carrier(1, "B6")
    made.write_pipeline(
        "flights",
        schedule="@continuous",
        poll_interval="1s",
        initial_load="from_earliest",
        engine="spark",
        spark={"conf": {"spark.ui.enabled": "false"}},
        # A task that is cleared while it runs keeps its count of tries.
        default_args={"retries": 3, "retry_delay": "1s"},
    )
    Pipeline.load(made.pipelines / "flights.yaml")
    return made


@pytest.fixture
def daemons(lake: Lake) -> Iterator[Daemons]:
    variables = {
        "AIRFLOW_CONN_LAKEHOUSE": lake.connection,
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    }
    with Daemons(lake.folder / "airflow", plugins=REPOSITORY / "plugins", variables=variables, is_warm=True) as started:
        yield started


def hanging_job(daemons: Daemons) -> list[psutil.Process]:
    """The JVM, the driver and the Python workers of a job, as soon as a worker runs."""

    def found() -> list[psutil.Process] | None:
        named = [(process, words(process)) for process in daemons.processes()]
        workers = [process for process, said in named if "pyspark.daemon" in said]
        # The first is their parent, which forks them.
        return (
            [process for process, said in named if "plan.json" in said or process in workers] if workers[1:] else None
        )

    job: list[psutil.Process] = wait_until(found, what="a job that hangs", seconds=SECONDS)
    # Here, because the job may end sooner than anybody looks once its task is ended.
    assert {"java", "python"} <= {process.name().rstrip("0123456789.") for process in job}
    return job


def words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def wait_for_end(job: list[psutil.Process]) -> None:
    wait_until(lambda: not any(is_alive(each) for each in job), what="the end of JVM and Python", seconds=SECONDS)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_job_ends_with_its_task_and_the_next_run_takes_over(lake: Lake, daemons: Daemons) -> None:
    flights = DagRuns(daemons=daemons, dag_id="flights")
    files = [path.rename(path.with_suffix(".kept")) for path in (lake.folder / "warehouse").rglob("*.parquet")]
    for path in files:
        os.mkfifo(path.with_suffix(".parquet"))

    def ends(number: int, act: Callable[[dict[str, Any]], object]) -> None:
        """Ends the hanging job of a run."""
        job = hanging_job(daemons)
        act(flights.all()[number])
        wait_for_end(job)

    # By hand, as the buttons of Airflow's page do.
    ends(0, lambda run: flights.mark(run, "shuffle_write", "failed"))
    flights.wait_for_end(0, state="failed")
    ends(1, lambda run: flights.mark(run, "shuffle_write", "success"))
    flights.wait_for_end(1, state="failed")
    assert "in Airflow clear shuffle_write and its downstream tasks" in daemons.task_logs("flights")
    ends(2, flights.let_a_day_pass)
    flights.wait_for_end(2, state="failed")
    ends(3, lambda run: flights.clear(run))
    run = flights.wait_for_task(3, "shuffle_write", "running")

    # The worker dies with its task, and leaves spark-submit behind.
    job = hanging_job(daemons)
    [jvm] = [process for process in job if process.name() == "java"]
    task = jvm.parent()
    worker = task.parent()
    worker.kill()
    task.kill()
    wait_for_end(job)

    for path in files:
        path.rename(path.with_suffix(".parquet"))
    run = flights.wait_for_end(3)
    assert flights.task(run, "shuffle_write")["try_number"] > 2
    assert lake.changes(0) == {("INSERT", 1, "AA"): 1, ("UPDATE_BEFORE", 1, "AA"): 1, ("UPDATE_AFTER", 1, "B6"): 1}
    assert left_in_shuffle(lake.folder / "storage") == []
