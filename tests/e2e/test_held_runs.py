"""Runs that Airflow itself holds: a DAG that is paused in the middle of a batch, and a run whose timeout passes."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.pipelines.halts import Halts
from support.pipelines.lake import Lake
from support.pipelines.leftovers import left_in_shuffle
from support.servers.daemons import Daemons, wait_until
from support.servers.dag_runs import DagRuns
from support.sinks.document_folder import DocumentFolder
from support.sinks.installed import install_sinks

pytestmark = [pytest.mark.daemons, pytest.mark.extended, pytest.mark.timeout(1800)]

REPOSITORY = Path(__file__).parents[2]
SECONDS = 300
DAG_FILE = """# Airflow reads only files with its name in them.
from datetime import timedelta
from pathlib import Path
from icefloe.orchestration.dags.dag_factory import make_dags
from support.pipelines.halts import halt_tasks

halt_tasks(Path(__file__).parents[1])
made = make_dags(Path(__file__).parent / "pipelines")
made["flights"].dagrun_timeout = timedelta(hours=12)  # as a cluster policy may do
globals().update(made)
"""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake.of_daemons(tmp_path, DAG_FILE)
    made.append((1, "AA"), (2, "UA"))
    made.append((3, "DL"))
    made.replace_carrier(1, "B6")
    made.write_pipeline(
        "flights",
        sink={"type": "documents", "folder": f"{tmp_path}/documents"},
        schedule="@continuous",
        poll_interval="1s",
        initial_load="from_earliest",
        shuffle={"map_task_bytes": 1, "partitions": 4, "target_size_bytes": 1},
    )
    return made


@pytest.fixture
def daemons(lake: Lake) -> Iterator[Daemons]:
    packages = lake.folder / "packages"
    install_sinks(packages, {"documents": "support.sinks.document_folder:open_document_folder"})
    path = os.pathsep.join([str(REPOSITORY / "tests"), str(REPOSITORY), str(packages)])
    variables = {"AIRFLOW_CONN_LAKEHOUSE": lake.connection, "PYTHONPATH": path}
    with Daemons(lake.folder / "airflow", plugins=REPOSITORY / "plugins", variables=variables, is_warm=True) as started:
        yield started


def documents(lake: Lake) -> dict[str, Any]:
    found = DocumentFolder(lake.folder / "documents").documents()
    return {key: row and row["carrier"] for key, row in found.items()}


def test_a_batch_goes_on_after_a_pause_and_after_timeouts_of_its_run(lake: Lake, daemons: Daemons) -> None:
    halts = Halts(folder=lake.folder / "airflow")
    flights = DagRuns(daemons=daemons, dag_id="flights")
    backfill = DagRuns(daemons=daemons, dag_id="flights__backfill")

    # Paused in the middle of shuffle_write: this task ends, and none begins, while the scheduler works for others.
    halts.at("*/flights/*/0/[0-9].0")
    halts.wait(seconds=SECONDS)
    flights.pause(is_paused=True)
    halts.go_on()
    run = flights.wait_for_task(0, "shuffle_write", "success")
    backfill.start({"up_to_snapshot_id": str(lake.current_snapshot_id())})
    backfill.wait_for_end(0)
    assert flights.task(run, "coalesce")["start_date"] is None
    assert [each["state"] for each in flights.all()] == ["running"]

    # The same run goes on, and its timeout passes when a part is delivered.
    halts.at("*/0/deliveries/*")
    flights.pause(is_paused=False)
    hit(flights, 0, halts)
    assert flights.task(run, "deliver")["state"] == "skipped"
    assert flights.task(run, "shuffle_write")["try_number"] == 1
    lake.replace_carrier(2, "WN")  # which the next run sees at once, or in the triggerer
    halts.at("*/flights/*/1/[0-9].0")
    flights.wait_for_end(1)
    assert documents(lake) == {"1": "B6", "2": "UA", "3": "DL"}

    # The timeout passes in the middle of shuffle_write.
    hit(flights, 2, halts)
    assert flights.task(flights.all()[2], "shuffle_write")["state"] == "skipped"
    flights.wait_for_end(3)
    assert documents(lake) == {"1": "B6", "2": "WN", "3": "DL"}
    assert left_in_shuffle(lake.folder / "storage") == []


def hit(flights: DagRuns, number: int, halts: Halts) -> None:
    """Lets the timeout of a run pass while its task halts; Airflow ends the task."""
    task = halts.wait(seconds=SECONDS)
    flights.let_a_day_pass(flights.all()[number])
    flights.wait_for_end(number, state="failed")
    wait_until(lambda: not task.is_running(), what="the end of the task whose run timed out", seconds=SECONDS)
    halts.go_on()
