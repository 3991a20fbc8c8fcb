import shutil
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.statsd_receiver import StatsdReceiver
from support.pipelines.lake import Lake
from support.servers.daemons import Daemons, wait_until

REPOSITORY = Path(__file__).parents[2]
SECONDS = 180

pytestmark = pytest.mark.daemons


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("daemons")
    pipelines = folder / "airflow" / "dags" / "pipelines"
    pipelines.mkdir(parents=True)
    shutil.copy(REPOSITORY / "dags" / "icefloe_pipelines.py", pipelines.parent)
    made = Lake.create(folder, pipelines)
    made.append((1, "AA"))
    made.write_pipeline("flights", schedule="@continuous", poll_interval="1s")
    sink = {"type": "files", "path": f"file://{folder}/trains"}
    made.write_pipeline("hourly", schedule="0 * * * *", table="nyc.trains", wait_for_table=True, sink=sink)
    (pipelines / "broken.yaml").write_text("version: 1\ntabel: nyc.flights\n")
    return made


@pytest.fixture(scope="module")
def statsd() -> Iterator[StatsdReceiver]:
    with StatsdReceiver() as started:
        yield started


@pytest.fixture(scope="module")
def daemons(lake: Lake, statsd: StatsdReceiver) -> Iterator[Daemons]:
    variables = {"AIRFLOW_CONN_LAKEHOUSE": lake.connection, **statsd.variables}
    with Daemons(lake.folder / "airflow", plugins=REPOSITORY / "plugins", variables=variables) as started:
        yield started


def runs(daemons: Daemons, dag_id: str) -> list[dict[str, Any]]:
    """The runs of a DAG, oldest first."""
    return daemons.get(f"dags/{dag_id}/dagRuns?order_by=run_after")["dag_runs"]


def state_of(daemons: Daemons, run: dict[str, Any], task_id: str) -> str | None:
    return daemons.get(f"dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}/taskInstances/{task_id}")["state"]


def wait_for_run(daemons: Daemons, dag_id: str, number: int) -> dict[str, Any]:
    """The run of a DAG, counted from 0, when it has ended well."""

    def ended() -> dict[str, Any] | None:
        found = runs(daemons, dag_id) if is_parsed(daemons, dag_id) else []
        run = found[number] if len(found) > number else None
        if run is not None and run["state"] == "failed":
            raise AssertionError(f"{run['dag_run_id']} of {dag_id} failed:\n{daemons.task_logs(dag_id)}")
        return run if run is not None and run["state"] == "success" else None

    return wait_until(ended, what=f"run {number} of {dag_id}", seconds=SECONDS)


def is_parsed(daemons: Daemons, dag_id: str) -> bool:
    try:
        daemons.get(f"dags/{dag_id}")
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return False
        raise
    return True


def wait_for_sensor(daemons: Daemons, number: int) -> dict[str, Any]:
    """The run whose sensor waits in the triggerer."""

    def waiting() -> dict[str, Any] | None:
        found = runs(daemons, "flights")
        if len(found) > number and state_of(daemons, found[number], "wait_for_snapshot") == "deferred":
            return found[number]
        return None

    return wait_until(waiting, what=f"the sensor of run {number}", seconds=SECONDS)


def test_a_commit_is_followed_and_a_range_is_delivered_while_the_sensor_waits(lake: Lake, daemons: Daemons) -> None:
    after = lake.current_snapshot_id()
    wait_for_run(daemons, "flights", 0)
    assert lake.changes(0) == {("INSERT", 1, "AA"): 1}

    wait_for_sensor(daemons, 1)
    up_to = lake.append((2, "UA"))
    wait_for_run(daemons, "flights", 1)
    assert lake.changes(1) == {("INSERT", 2, "UA"): 1}

    waiting = wait_for_sensor(daemons, 2)
    conf = {"after_snapshot_id": str(after), "up_to_snapshot_id": str(up_to)}
    daemons.post("dags/flights__backfill/dagRuns", {"logical_date": None, "conf": conf})
    wait_for_run(daemons, "flights__backfill", 0)
    [backfill] = lake.backfills()
    assert lake.changes(0, below=f"_backfills/{backfill}") == {("INSERT", 2, "UA"): 1}
    assert state_of(daemons, waiting, "wait_for_snapshot") == "deferred"

    lake.replace_carrier(1, "B6")
    wait_for_run(daemons, "flights", 2)
    assert lake.changes(2) == {("UPDATE_BEFORE", 1, "AA"): 1, ("UPDATE_AFTER", 1, "B6"): 1}


def test_metrics_of_the_triggerer_and_of_tasks_arrive_at_statsd(daemons: Daemons, statsd: StatsdReceiver) -> None:
    wait_for_sensor(daemons, 3)
    seen = statsd.count("icefloe.flights.polls.empty")
    # A sensor looks once where it runs: what comes now, second by second, comes from the triggerer.
    wait_until(
        lambda: statsd.count("icefloe.flights.polls.empty") > seen + 3, what="looks of the triggerer", seconds=SECONDS
    )
    assert statsd.count("icefloe.flights.polls.due") >= 2
    assert statsd.count("icefloe.flights.batch.opened") == 3
    assert statsd.count("icefloe.flights.batch.committed.shuffle") == 1
    assert statsd.count("icefloe.flights__backfill.batch.committed.insert_only") == 1


def test_a_broken_file_shows_as_a_dag_and_no_file_is_lost(daemons: Daemons) -> None:
    wait_until(lambda: is_parsed(daemons, "broken"), what="the DAG of the broken file", seconds=SECONDS)
    assert {tag["name"] for tag in daemons.get("dags/broken")["tags"]} == {"icefloe", "broken"}
    assert daemons.get("importErrors")["total_entries"] == 0
    assert daemons.get("plugins/importErrors")["total_entries"] == 0


def test_a_backfill_by_date_is_refused(daemons: Daemons) -> None:
    wait_until(lambda: is_parsed(daemons, "hourly"), what="the DAG", seconds=SECONDS)
    dates = {"from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-02T00:00:00Z"}
    with pytest.raises(urllib.error.HTTPError) as refused:
        daemons.post("backfills", {"dag_id": "hourly", **dates})
    assert 400 <= refused.value.code < 500
    assert "backfill" in refused.value.read().decode()


def test_another_schedule_checks_once(daemons: Daemons) -> None:
    run = wait_for_run(daemons, "hourly", 0)
    assert state_of(daemons, run, "nothing_to_do") == "success"


def test_a_bound_that_is_no_snapshot_id_is_refused_by_the_form(daemons: Daemons) -> None:
    wait_until(lambda: is_parsed(daemons, "flights__backfill"), what="the DAG", seconds=SECONDS)
    with pytest.raises(urllib.error.HTTPError) as refused:
        daemons.post("dags/flights__backfill/dagRuns", {"logical_date": None, "conf": {"after_snapshot_id": "head"}})
    assert refused.value.code == 400
