import shutil
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.statsd_receiver import StatsdReceiver
from support.pipelines.lake import Lake
from support.pipelines.replay import delivered_changes
from support.servers.daemons import Daemons, wait_until
from support.servers.dag_runs import DagRuns

REPOSITORY = Path(__file__).parents[2]

pytestmark = pytest.mark.daemons

REPORT = """
from airflow.sdk import DAG, task

from icefloe import batch_task_group

with DAG("report", schedule=None, max_active_runs=4):

    @task
    def use(ti) -> int:
        return ti.xcom_pull(task_ids="reported.cleanup")

    batch_task_group("reported.yaml", waits=True) >> use()
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("daemons")
    pipelines = folder / "airflow" / "dags" / "pipelines"
    pipelines.mkdir(parents=True)
    shutil.copy(REPOSITORY / "dags" / "icefloe_pipelines.py", pipelines.parent)
    upkeep = (REPOSITORY / "dags" / "icefloe_upkeep.py").read_text()
    (pipelines.parent / "icefloe_upkeep.py").write_text(upkeep.replace("schedule=None", 'schedule="@daily"'))
    made = Lake.create(folder, pipelines)
    made.append((1, "AA"))
    made.append((2, "UA"))
    made.write_pipeline("flights", schedule="@continuous", poll_interval="1s")
    sink = {"type": "files", "path": f"file://{folder}/trains"}
    made.write_pipeline("hourly", schedule="0 * * * *", table="nyc.trains", wait_for_table=True, sink=sink)
    made.write_pipeline("reported", poll_interval="1s", sink={"type": "files", "path": f"file://{folder}/reported"})
    (pipelines / "reported.yaml").rename(pipelines.parent / "reported.yaml")
    (pipelines.parent / "report.py").write_text(REPORT)
    (pipelines / "broken.yaml").write_text("version: 1\ntabel: nyc.flights\n")
    return made


@pytest.fixture(scope="module")
def statsd() -> Iterator[StatsdReceiver]:
    with StatsdReceiver() as started:
        yield started


@pytest.fixture(scope="module")
def daemons(lake: Lake, statsd: StatsdReceiver) -> Iterator[Daemons]:
    variables = {"AIRFLOW_CONN_LAKEHOUSE": lake.connection, **statsd.variables}
    with Daemons(lake.folder / "airflow", plugins=REPOSITORY / "plugins", variables=variables, is_warm=True) as started:
        yield started


@pytest.fixture(scope="module")
def flights(daemons: Daemons) -> DagRuns:
    return DagRuns(daemons=daemons, dag_id="flights")


@pytest.fixture(scope="module")
def backfills(daemons: Daemons) -> DagRuns:
    return DagRuns(daemons=daemons, dag_id="flights__backfill")


@pytest.fixture(scope="module")
def hourly(daemons: Daemons) -> DagRuns:
    return DagRuns(daemons=daemons, dag_id="hourly")


def test_a_commit_is_followed_and_a_range_is_delivered_while_the_sensor_waits(
    lake: Lake, flights: DagRuns, backfills: DagRuns, statsd: StatsdReceiver
) -> None:
    flights.wait_for_end(0)
    assert lake.changes(0) == {("INSERT", 1, "AA"): 1, ("INSERT", 2, "UA"): 1}

    waiting = flights.wait_for_task(1, "wait_for_snapshot", "deferred")
    after, up_to = (str(snapshot.snapshot_id) for snapshot in lake.table.metadata.snapshots)
    backfills.start({"after_snapshot_id": after, "up_to_snapshot_id": up_to})
    backfills.wait_for_end(0)
    [backfill] = lake.backfills()
    assert lake.changes(0, below=f"_backfills/{backfill}") == {("INSERT", 2, "UA"): 1}
    assert flights.task(waiting, "wait_for_snapshot")["state"] == "deferred"
    seen = statsd.count("icefloe.flights.polls.empty")
    # A sensor looks once where it runs: what comes now, second by second, comes from the triggerer.
    wait_until(
        lambda: statsd.count("icefloe.flights.polls.empty") > seen + 3, what="looks of the triggerer", seconds=180
    )

    lake.replace_carrier(1, "B6")
    flights.wait_for_end(1)
    assert lake.changes(1) == {("UPDATE_BEFORE", 1, "AA"): 1, ("UPDATE_AFTER", 1, "B6"): 1}
    assert statsd.count("icefloe.flights.polls.due") >= 2
    assert statsd.count("icefloe.flights.batch.opened") == 2
    assert statsd.count("icefloe.flights.batch.committed.shuffle") == 1
    assert statsd.count("icefloe.flights__backfill.batch.committed.insert_only") == 1


def test_a_broken_file_shows_as_a_dag_and_no_file_is_lost(daemons: Daemons) -> None:
    DagRuns(daemons=daemons, dag_id="broken").wait_until_parsed()
    assert {tag["name"] for tag in daemons.get("dags/broken")["tags"]} == {"icefloe", "broken"}
    assert daemons.get("importErrors")["total_entries"] == 0
    assert daemons.get("plugins/importErrors")["total_entries"] == 0


def test_upkeep_runs_by_its_schedule_with_tasks_for_each_pipeline(daemons: Daemons) -> None:
    run = DagRuns(daemons=daemons, dag_id="icefloe_upkeep").wait_for_end(0, state="failed")
    tasks = daemons.get(f"dags/icefloe_upkeep/dagRuns/{run['dag_run_id']}/taskInstances")["task_instances"]
    found = {(task["task_id"], task["rendered_map_index"].removesuffix(".yaml")): task["state"] for task in tasks}
    assert found == {
        ("sweep", "flights"): "success", ("sweep", "hourly"): "success", ("sweep", "broken"): "failed",
        ("purge", "flights"): "skipped", ("purge", "hourly"): "skipped", ("purge", "broken"): "failed",
    }  # fmt: skip


def test_a_backfill_by_date_is_refused(daemons: Daemons, hourly: DagRuns) -> None:
    hourly.wait_until_parsed()
    dates = {"from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-02T00:00:00Z"}
    with pytest.raises(urllib.error.HTTPError) as refused:
        daemons.post("backfills", {"dag_id": "hourly", **dates})
    assert 400 <= refused.value.code < 500
    assert "backfill" in refused.value.read().decode()


def test_another_schedule_checks_once(hourly: DagRuns) -> None:
    run = hourly.wait_for_end(0)
    assert hourly.task(run, "nothing_to_do")["state"] == "success"


def test_a_bound_that_is_no_snapshot_id_is_refused_by_the_form(backfills: DagRuns) -> None:
    backfills.wait_until_parsed()
    with pytest.raises(urllib.error.HTTPError) as refused:
        backfills.start({"after_snapshot_id": "head"})
    assert refused.value.code == 400


def test_runs_of_a_group_wait_at_once_and_deliver_one_batch(daemons: Daemons, lake: Lake) -> None:
    def used(run: dict[str, Any]) -> int:
        entry = daemons.get(f"dags/report/dagRuns/{run['dag_run_id']}/taskInstances/use/xcomEntries/return_value")
        return int(entry["value"])

    report = DagRuns(daemons=daemons, dag_id="report")
    report.wait_until_parsed()
    report.start({"a key": "of the DAG"})
    rows = lake.table.refresh().scan().to_arrow().num_rows
    assert used(report.wait_for_end(0)) == rows
    for number in (1, 2):
        report.start({})
        report.wait_for_task(number, "reported.wait_for_snapshot", "deferred")
    lake.append((100, "DL"))
    assert {used(report.wait_for_end(number)) for number in (1, 2)} in ({1}, {0, 1})
    assert len(list(delivered_changes(lake.folder / "reported" / "batch=1"))) == 1
    assert not (lake.folder / "reported" / "batch=2").exists()
