"""The page's documents from Airflow's own app, after real runs."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest

import airflow_environment
from icefloe.errors import TransientError
from support.catalogs import sql_properties
from support.pipelines.lake import Lake, TaskStates
from support.servers.daemons import wait_until

pytestmark = pytest.mark.airflow


def numbers_that_browsers_round(value: Any) -> Iterator[int]:
    """Whole numbers that JavaScript cannot hold; a snapshot id is one of them nearly always."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from numbers_that_browsers_round(each)
    elif isinstance(value, int) and abs(value) > 2**53:
        yield value


@pytest.fixture
def unpause() -> Iterator[Callable[[str], None]]:
    """Switches a DAG on until the test ends: the next one has the same database."""
    switched_on: list[str] = []

    def switch_on(dag_id: str) -> None:
        switched_on.append(dag_id)
        set_paused(dag_id, is_paused=False)

    yield switch_on
    for dag_id in switched_on:
        set_paused(dag_id, is_paused=True)


def set_paused(dag_id: str, *, is_paused: bool) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == dag_id).values(is_paused=is_paused))


def test_a_batch_that_was_looked_at_while_it_was_open_is_shown_when_it_is_committed(
    client: Callable[..., Any], lake: Lake, run_dag: Callable[..., TaskStates], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append((1, "AA"))
    lake.write_pipeline("flights")
    with monkeypatch.context() as patched:
        later = mock.Mock(side_effect=TransientError("later"))
        patched.setattr("icefloe.engines.phase_runner.commit_batch", later)
        assert run_dag("flights").in_state("failed") == {"commit"}
    opened = client("api/pipelines/flights/batches/0", "flights").json()
    assert (opened["batch"]["state"], "there is no" in opened["report_sentence"]) == ("open", True)
    assert run_dag("flights").run_state == "success"
    batch = known(lambda: client("api/pipelines/flights/batches/0", "flights").json(), "report_sentence")
    assert (batch["batch"]["state"], batch["batch"]["route"]) == ("committed", "insert_only")
    [entry] = client("api/pipelines/flights", "flights").json()["batches"]
    assert (entry["batch"]["batch_number"], entry["state"], entry["route"]) == (0, "committed", "insert_only")


LARGE = {"name": "large", "query": "SELECT flight_id FROM changes WHERE flight_id > 100"}


@pytest.fixture
def failed_check(lake: Lake, run_dag: Callable[..., TaskStates], monkeypatch: pytest.MonkeyPatch) -> str:
    """Delivers batch 0, and leaves batch 1 open by a check that fails in Airflow; the id of that run."""
    monkeypatch.setenv("ICEFLOE_OWNER", "airflow-and-commands")
    lake.append((1, "AA"))
    lake.write_pipeline("flights", checks=[LARGE])
    assert run_dag("flights").run_state == "success"
    lake.append((1000, "AA"))
    failed = run_dag("flights")
    assert failed.in_state("failed") == {"check"}
    return failed.run_id


def by_command(lake: Lake, *arguments: str) -> None:
    """The command line, whose pipelines find the catalog by variables of the environment."""
    properties = {
        f"PYICEBERG_CATALOG__LAKEHOUSE__{key.upper()}": text for key, text in sql_properties(lake.folder).items()
    }
    command, *rest = arguments
    path = str(airflow_environment.REPOSITORY / "plugins")
    asked = [sys.executable, "-m", "icefloe", command, str(lake.pipelines / "flights.yaml"), *rest]
    environment = {**os.environ, "PYTHONPATH": path, **properties}
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def settled(client: Callable[..., Any], run_id: str) -> tuple[Any, Any, Any]:
    """Row, batch and run of the page, once it has read the end of batch 1."""

    def look() -> Any:
        of_run = client(f"api/pipelines/flights/runs/{run_id}", "flights").json()
        [row] = client("api/overview", "flights").json()["pipelines"]
        return (row, of_run) if of_run["ended_since"] and row["state"] != "failed" else None

    row, of_run = wait_until(look, what="the end of batch 1", seconds=60)
    return row, client("api/pipelines/flights/batches/1", "flights").json(), of_run


def test_a_batch_that_a_command_delivered_after_its_run_had_failed_needs_nobody(
    client: Callable[..., Any], lake: Lake, failed_check: str, unpause: Callable[[str], None]
) -> None:
    unpause("flights")
    [row] = client("api/overview", "flights").json()["pipelines"]
    assert (row["state"], row["needs_somebody"]) == ("failed", True)
    of_run = client(f"api/pipelines/flights/runs/{failed_check}", "flights").json()
    assert (of_run["batch"]["state"], of_run["trouble"]["task_id"]) == ("open", "check")
    lake.write_pipeline("flights", checks=[LARGE | {"query": "FROM changes WHERE flight_id < 0"}])
    by_command(lake, "run")
    row, batch, of_run = settled(client, failed_check)
    assert (row["state"], row["needs_somebody"], row["ways_out"]) == ("up to date", False, [])
    assert row["sentence"] == "The last run failed; batch 1 was delivered or given up since."
    for found in (batch, of_run):
        assert (found["batch"]["state"], found["trouble"]) == ("committed", None)
        assert found["ended_since"] == "This run failed; batch 1 was delivered since."


def test_a_batch_that_was_given_up_and_a_cursor_that_was_set_are_no_commits(
    client: Callable[..., Any], lake: Lake, failed_check: str, unpause: Callable[[str], None]
) -> None:
    unpause("flights")
    by_command(lake, "abandon", "--yes")
    by_command(lake, "set-cursor", "--snapshot-id", str(lake.current_snapshot_id()), "--yes")
    row, batch, of_run = settled(client, failed_check)
    assert (row["state"], row["needs_somebody"]) == ("up to date", False)
    assert (batch["batch"]["state"], of_run["batch"]["state"], of_run["trouble"]) == ("abandoned", "abandoned", None)
    assert of_run["ended_since"] == "This run failed; batch 1 was abandoned since."
    page = wait_until(lambda: with_reports(client("api/pipelines/flights", "flights").json()), what="them", seconds=60)
    assert [(each["batch"]["batch_number"], each["state"]) for each in page["batches"]] == [
        (2, "cursor set"),
        (1, "abandoned"),
        (0, "committed"),
    ]


def test_a_task_that_airflow_scheduled_and_never_queued_needs_somebody(
    client: Callable[..., Any], lake: Lake, run_dag: Callable[..., TaskStates], unpause: Callable[[str], None]
) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update

    lake.append((1, "AA"))
    lake.write_pipeline("flights")
    run_id = run_dag("flights").run_id
    unpause("flights")
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    waits = {"state": "scheduled", "scheduled_dttm": an_hour_ago, "queued_dttm": None}
    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.run_id == run_id).values(state="running"))
        commit = TaskInstance.run_id == run_id, TaskInstance.task_id == "commit"
        session.execute(update(TaskInstance).where(*commit).values(**waits))
    row = client("api/pipelines/flights", "flights").json()["pipeline"]
    assert (row["needs_somebody"], row["task_id"]) == (True, "commit")
    assert "commit is scheduled and no worker takes it" in row["sentence"]


def known(ask: Callable[[], Any], sentence: str) -> Any:
    """Asks as the page does: again, while a document has a sentence that says why something is not known yet."""
    return wait_until(
        lambda: None if (document := ask())[sentence] else document, what=f"a document without {sentence}", seconds=60
    )


def with_reports(page: Any) -> Any:
    """The page of a pipeline, once all its reports came; a store may take longer than the page waits for it."""
    return None if any("sentence" in entry for entry in page["batches"]) else page


def test_the_documents_after_real_runs(
    client: Callable[..., Any], lake: Lake, run_dag: Callable[..., TaskStates], unpause: Callable[[str], None]
) -> None:
    first = lake.append((1, "AA"), (2, "UA"))
    lake.write_pipeline("flights")
    lake.write_pipeline("orders", catalog="nowhere")
    (lake.pipelines / "broken.yaml").write_text("version: 1\ntabel: nyc.flights\n")
    run_dag("flights")
    second = lake.replace_carrier(1, "B6")
    run_dag("flights")
    run_dag("orders")
    backfill = run_dag("flights__backfill", after_snapshot_id=str(first))

    assert client("api/pipelines/flights", "flights").json()["pipeline"]["state"] == "paused"
    unpause("flights")
    overview = client("api/overview", "admin", "ADMIN").json()
    states = {row["dag_id"]: (row["state"], row["sentence"]) for row in overview["pipelines"]}
    assert states["flights"] == ("up to date", None)
    assert states["broken"][0] == "broken file"
    assert "tabel" in states["broken"][1]
    assert states["orders"][0] == "failed"
    assert "nowhere" in states["orders"][1]
    assert [row["dag_id"] for row in client("api/overview", "flights").json()["pipelines"]] == ["flights"]

    page = wait_until(lambda: with_reports(client("api/pipelines/flights", "flights").json()), what="them", seconds=60)
    assert [(entry["batch"]["batch_number"], entry["route"]) for entry in page["batches"]] == [
        (1, "shuffle"),
        (0, "insert_only"),
    ]
    assert (
        page["batches"][0]["batch"]["up_to_snapshot_id"]
        == str(second)
        == page["pipeline"]["status"]["cursor_snapshot_id"]
    )
    assert page["batches"][0]["batch"]["counts"]["update_after"] == 1
    assert {phase["name"] for phase in page["batches"][0]["phases"]} >= {"plan", "shuffle_read", "commit"}
    assert page["backfills"][0]["run_id"] == backfill.run_id
    alone = client("api/pipelines/flights", "flights-alone").json()
    assert (alone["pipeline"]["dag_id"], alone["backfills"]) == ("flights", [])
    assert client(f"api/pipelines/flights__backfill/runs/{backfill.run_id}", "flights-alone").status_code == 403

    batch = client("api/pipelines/flights/batches/1", "flights").json()
    assert batch["batch"]["audit"]["summaries_differ"] == 0
    assert {task["task_id"] for task in batch["run"]["tasks"]} >= {"plan", "shuffle_write", "commit"}
    assert client("api/pipelines/flights/batches/7", "flights").status_code == 404

    of_run = client(f"api/pipelines/flights__backfill/runs/{backfill.run_id}", "flights").json()
    assert (of_run["is_backfill"], of_run["batch"]["batch"]["counts"]["update_before"]) == (True, 1)
    assert client("api/pipelines/flights__backfill/batches/0", "flights").status_code == 404
    failed = client("api/pipelines/orders", "orders").json()["pipeline"]
    of_failed = client(f"api/pipelines/orders/runs/{failed['run_id']}", "orders").json()
    assert of_failed["trouble"]["sentence"] == failed["sentence"]

    for document in (overview, page, batch, of_run, of_failed):
        assert list(numbers_that_browsers_round(document)) == []
    history = client("api/pipelines/flights/snapshots", "flights").json()
    assert list(numbers_that_browsers_round(history)) == []
    assert history["snapshots"][0]["snapshot_id"] == str(second)
    assert history["backfill_dag_id"] == "flights__backfill"
    nowhere = client("api/pipelines/orders/snapshots", "orders").json()
    assert "nowhere" in nowhere["sentence"]
    assert client("api/pipelines/unknown", "admin", "ADMIN").status_code == 404


HEAVY = ("fastapi.routing", "obstore", "pyarrow", "pyiceberg", "sqlalchemy.orm")


PROBE = f"""
import sys, airflow.plugins_manager
before = set(sys.modules)
import icefloe_plugin
print(*[name for name in {HEAVY} if name in sys.modules and name not in before])
"""


def test_the_plugin_stays_light() -> None:
    """Every task process imports it."""
    environment = {**os.environ, "PYTHONPATH": str(airflow_environment.REPOSITORY / "plugins")}
    found = subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
