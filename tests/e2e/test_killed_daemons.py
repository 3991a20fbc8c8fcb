"""Airflow's scheduler, triggerer and workers killed (SIGKILL) in the middle of batches, and started again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from support.pipelines.halts import Halts
from support.pipelines.lake import Lake
from support.pipelines.leftovers import left_in_shuffle
from support.servers.daemons import Daemons, wait_until
from support.servers.dag_runs import DagRuns

pytestmark = [pytest.mark.daemons, pytest.mark.extended, pytest.mark.timeout(1800)]

REPOSITORY = Path(__file__).parents[2]
SECONDS = 300
SOON = {
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "2",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
}
"""Airflow waits minutes before it takes a scheduler, a triggerer or a task for dead."""
HALTING = """# Airflow reads only files with its name in them.
from icefloe.orchestration.dags.dag_factory import make_dags
from pathlib import Path
from support.pipelines.halts import halt_tasks

halt_tasks(Path(__file__).parents[1])
globals().update(make_dags(Path(__file__).parent / "pipelines"))
"""
LOADED = {
    ("INSERT", 1, "AA"): 1,
    ("INSERT", 2, "UA"): 1,
    ("INSERT", 3, "DL"): 1,
    ("UPDATE_BEFORE", 1, "AA"): 1,
    ("UPDATE_AFTER", 1, "B6"): 1,
}
UPDATED = {("UPDATE_BEFORE", 2, "UA"): 1, ("UPDATE_AFTER", 2, "WN"): 1}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake.of_daemons(tmp_path, HALTING)
    made.append((1, "AA"), (2, "UA"))
    made.append((3, "DL"))
    made.replace_carrier(1, "B6")
    made.write_pipeline(
        "flights",
        schedule="@continuous",
        poll_interval="1s",
        initial_load="from_earliest",
        shuffle={"map_task_bytes": 1, "partitions": 4, "target_size_bytes": 1},
        default_args={"retries": 3, "retry_delay": "1s"},
    )
    return made


@pytest.fixture
def daemons(lake: Lake) -> Iterator[Daemons]:
    path = os.pathsep.join([str(REPOSITORY / "tests"), str(REPOSITORY)])
    variables = {"AIRFLOW_CONN_LAKEHOUSE": lake.connection, "PYTHONPATH": path, **SOON}
    with Daemons(lake.folder / "airflow", plugins=REPOSITORY / "plugins", variables=variables) as started:
        yield started


def test_batches_are_delivered_once_whatever_dies(lake: Lake, daemons: Daemons) -> None:
    halts = Halts(folder=lake.folder / "airflow")
    flights = DagRuns(daemons=daemons, dag_id="flights")

    # The scheduler dies alone. The worker goes on with the task, until Airflow tells it that the task runs elsewhere.
    halts.at("*/0/[0-9].0")
    lost = halts.wait(seconds=SECONDS)
    # Asked for before coalesce can begin: once shuffle_write succeeds, it may be through before the next look.
    halts.at("*/0/extents/*")
    daemons.kill("scheduler", with_children=False)
    daemons.start("scheduler")
    wait_until(lambda: not lost.is_running(), what="the end of the task whose scheduler died", seconds=SECONDS)
    run = flights.wait_for_task(0, "shuffle_write", "success")
    assert flights.task(run, "shuffle_write")["try_number"] > 1

    # A worker dies. Nobody supervises the task, which goes on when its batch was delivered without it.
    zombie = halts.wait(seconds=SECONDS)
    zombie.parent().kill()
    run = flights.wait_for_end(0)
    assert flights.task(run, "coalesce")["try_number"] > 1
    assert zombie.is_running()
    halts.go_on()
    wait_until(lambda: not zombie.is_running(), what="the end of the task whose worker died", seconds=SECONDS)
    assert lake.changes(0) == LOADED
    assert left_in_shuffle(lake.folder / "storage") == []

    # The triggerer dies while a sensor waits in it.
    flights.wait_for_task(1, "wait_for_snapshot", "deferred")
    daemons.kill("triggerer", with_children=False)
    halts.at("*/batch=1/_manifest.json")
    lake.replace_carrier(2, "WN")
    daemons.start("triggerer")

    # The machine of scheduler and worker dies: readers see the batch, and the checkpoint does not know it yet.
    halts.wait(seconds=SECONDS)
    daemons.kill("scheduler", with_children=True)
    assert not (lake.folder / "storage/checkpoints/flights/commits/1.json").exists()
    daemons.start("scheduler")
    run = flights.wait_for_end(1)
    assert flights.task(run, "commit")["try_number"] > 1
    assert (lake.changes(0), lake.changes(1)) == (LOADED, UPDATED)
    assert left_in_shuffle(lake.folder / "storage") == []

    # A worker and its task stand still for longer than Airflow waits for a heartbeat, and go on when the batch is done.
    halts.at("*/2/results/*")
    lake.replace_carrier(3, "AS")
    late = halts.wait(seconds=SECONDS)
    with stopped(late.parent(), late):
        run = flights.wait_for_end(2)
        assert flights.task(run, "shuffle_read")["try_number"] > 1
        halts.go_on()
    wait_until(lambda: not late.is_running(), what="the end of the task that was late", seconds=SECONDS)
    assert lake.changes(2) == {("UPDATE_BEFORE", 3, "DL"): 1, ("UPDATE_AFTER", 3, "AS"): 1}
    assert left_in_shuffle(lake.folder / "storage") == []

    # Nothing is lost of what came meanwhile, and nothing comes again.
    flights.wait_for_task(3, "wait_for_snapshot", "deferred")
    names = sorted(path.name for path in (lake.folder / "changes").glob("batch=*"))
    assert names == ["batch=0", "batch=1", "batch=2"]


@contextmanager
def stopped(*processes: psutil.Process) -> Iterator[None]:
    """Holds processes (SIGSTOP), and lets them go on (SIGCONT)."""
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()
