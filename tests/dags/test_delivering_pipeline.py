"""A pipeline that delivers to a sink of another package, through Airflow."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.pipelines.lake import Lake, TaskStates
from support.sinks.document_folder import DocumentFolder, refuses_once, registered

pytestmark = pytest.mark.airflow
RunDag = Callable[..., TaskStates]


@pytest.fixture
def delivering(lake: Lake) -> Iterator[Lake]:
    with registered():
        lake.write_pipeline("flights", sink={"type": "documents", "folder": f"{lake.folder}/documents"})
        yield lake


def documents(lake: Lake) -> dict[str, Any]:
    found = DocumentFolder(lake.folder / "documents").documents()
    return {key: row and row["carrier"] for key, row in found.items()}


def result(run: TaskStates, task_id: str) -> Any:
    """The value that a task of a run returned."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        query = session.query(XComModel).filter_by(run_id=run.run_id, task_id=task_id, key="return_value")
        return query.one().value


def test_batches_of_all_routes_are_delivered_and_quiet_runs_deliver_nothing(delivering: Lake, run_dag: RunDag) -> None:
    delivering.append((1, "AA"), (2, "UA"))
    assert run_dag("flights").in_state("skipped") == {"shuffle_write", "coalesce", "shuffle_read", "nothing_to_do"}
    assert documents(delivering) == {"1": "AA", "2": "UA"}

    delivering.replace_carrier(2, "DL")
    shuffled = run_dag("flights")
    assert shuffled.in_state("skipped") == {"insert_only", "nothing_to_do"}
    assert documents(delivering) == {"1": "AA", "2": "DL"}
    committed = result(shuffled, "commit")
    assert committed["sink"] == "documents"
    assert committed["sink_path"] == f"file://{delivering.folder}/storage/staged/flights"
    assert committed["delivery"]["url"] == f"file://{delivering.folder}/documents"
    assert committed["delivery"]["documents"] == 2
    assert committed["delivery"]["lag_seconds"] > 0

    quiet = run_dag("flights")
    assert quiet.run_state == "success"
    assert {"deliver", "commit", "cleanup"} <= quiet.in_state("skipped")


def test_a_sink_that_fails_leaves_the_batch_open_and_the_next_run_delivers_it(
    delivering: Lake, run_dag: RunDag
) -> None:
    delivering.append((1, "AA"))
    refuses_once("finish")
    failed = run_dag("flights")
    assert (failed.by_task["deliver"], failed.by_task["commit"]) == ("failed", "upstream_failed")
    status = json.loads((delivering.folder / "storage/checkpoints/flights/status.json").read_text())
    assert (status["trouble"]["phase"], status["open_batch"]) == ("deliver", 0)
    assert run_dag("flights").run_state == "success"
    assert documents(delivering) == {"1": "AA"}


def test_a_consumer_of_files_in_order_finds_them_where_they_stay(lake: Lake, run_dag: RunDag) -> None:
    lake.write_pipeline(
        "flights", sink={"type": "files", "path": f"file://{lake.folder}/sorted", "order_by": ["carrier"]}
    )
    lake.append((1, "UA"), (2, "AA"))
    committed = result(run_dag("flights"), "commit")
    assert (committed["sink"], committed["sink_path"]) == ("files", f"file://{lake.folder}/sorted")
    assert (lake.folder / "sorted" / "batch=0" / "_manifest.json").exists()


def test_a_backfill_stays_staged(delivering: Lake, run_dag: RunDag) -> None:
    snapshot_id = delivering.append((1, "AA"))
    done = run_dag("flights__backfill", up_to_snapshot_id=str(snapshot_id))
    assert (done.run_state, "deliver" in done.by_task) == ("success", False)
    committed = result(done, "commit")
    assert (committed["sink"], committed["delivery"]) == ("files", None)
    assert committed["sink_path"].startswith(f"file://{delivering.folder}/storage/staged/flights/_backfills/")
    assert not (delivering.folder / "documents").exists()


def test_a_mirror_is_written_through_the_connection_of_its_catalog(lake: Lake, run_dag: RunDag) -> None:
    lake.table.catalog.create_namespace("copies")
    lake.write_pipeline("flights", sink={"type": "iceberg", "table": "copies.{table}", "mode": "mirror"})
    lake.append((1, "AA"), (2, "UA"))
    assert run_dag("flights").run_state == "success"
    lake.replace_carrier(2, "DL")
    done = run_dag("flights")
    assert result(done, "commit")["delivery"]["url"] == "iceberg://lakehouse/copies.flights"
    rows = lake.table.catalog.load_table("copies.flights").scan().to_arrow().to_pylist()
    assert sorted((row["flight_id"], row["carrier"]) for row in rows) == [(1, "AA"), (2, "DL")]


CHECK = {"name": "no_delta", "query": "SELECT carrier FROM changes WHERE carrier = 'DL'"}


def test_a_red_check_stops_a_batch_and_the_next_run_goes_on_once_its_query_is_corrected(
    delivering: Lake, run_dag: RunDag
) -> None:
    sink = {"type": "documents", "folder": f"{delivering.folder}/documents"}
    delivering.write_pipeline("flights", sink=sink, checks=[CHECK])
    delivering.append((1, "AA"), (2, "DL"))
    failed = run_dag("flights")
    assert (failed.by_task["check"], failed.by_task["deliver"]) == ("failed", "upstream_failed")
    status = json.loads((delivering.folder / "storage/checkpoints/flights/status.json").read_text())
    assert (status["trouble"]["phase"], status["trouble"]["is_final"]) == ("check", True)
    assert "check no_delta found 1 wrong row" in status["trouble"]["sentence"]
    assert documents(delivering) == {}

    delivering.write_pipeline("flights", sink=sink, checks=[CHECK | {"on_failure": "warn"}])
    done = run_dag("flights")
    assert (done.run_state, result(done, "check")) == ("success", {"no_delta": 1})
    assert documents(delivering) == {"1": "AA", "2": "DL"}
    quiet = run_dag("flights")
    assert (quiet.run_state, quiet.by_task["check"]) == ("success", "skipped")


def test_a_backfill_has_a_check_too(delivering: Lake, run_dag: RunDag) -> None:
    sink = {"type": "documents", "folder": f"{delivering.folder}/documents"}
    delivering.write_pipeline("flights", sink=sink, checks=[CHECK])
    snapshot_id = delivering.append((1, "DL"))
    done = run_dag("flights__backfill", up_to_snapshot_id=str(snapshot_id))
    assert (done.by_task["check"], done.by_task["commit"]) == ("failed", "upstream_failed")
    assert not list(delivering.folder.rglob("_manifest.json"))
