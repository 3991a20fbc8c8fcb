import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

import airflow_environment
from icefloe.errors import TransientError
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import BatchSummary
from support.pipelines.lake import Lake, TaskStates

pytestmark = pytest.mark.airflow
RunDag = Callable[..., TaskStates]
ClearTask = Callable[[str, str, str], str]


def xcoms(run_id: str) -> str:
    """Everything a run passed between its tasks, as Airflow stored it."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        return json.dumps([row.value for row in session.query(XComModel).filter(XComModel.run_id == run_id)])


def told(name: str) -> list[int]:
    """The batches of a pipeline's asset events, in the order in which consumers got them."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session

    with create_session() as session:
        query = session.query(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        events = query.filter(AssetModel.name == f"icefloe://{name}").order_by(AssetEvent.id).all()
        return [event.extra["batch_number"] for event in events]


def test_a_table_is_followed_through_all_routes(lake: Lake, run_dag: RunDag) -> None:
    lake.write_pipeline("flights")
    lake.append((1, "AA"), (2, "UA"))
    first = run_dag("flights")
    assert first.run_state == "success"
    assert first.in_state("skipped") == {"shuffle_write", "coalesce", "shuffle_read", "nothing_to_do"}
    assert lake.changes(0) == {("INSERT", 1, "AA"): 1, ("INSERT", 2, "UA"): 1}

    lake.replace_carrier(2, "DL")
    second = run_dag("flights")
    assert second.run_state == "success"
    assert second.in_state("skipped") == {"insert_only", "nothing_to_do"}
    assert lake.changes(1) == {("UPDATE_BEFORE", 2, "UA"): 1, ("UPDATE_AFTER", 2, "DL"): 1}

    quiet = run_dag("flights")
    assert quiet.run_state == "success"
    assert quiet.by_task["nothing_to_do"] == "success"
    assert {"commit", "cleanup"} <= quiet.in_state("skipped")


def test_tasks_of_other_routes_skip_themselves_if_route_is_marked_as_success(lake: Lake, run_dag: RunDag) -> None:
    lake.write_pipeline("flights")
    lake.append((1, "AA"), (2, "UA"))
    done = run_dag("flights", marked_success="route")
    assert (done.run_state, done.in_state("skipped")) == ("success", {"shuffle_write", "coalesce", "shuffle_read"})
    assert lake.changes(0) == {("INSERT", 1, "AA"): 1, ("INSERT", 2, "UA"): 1}


def test_a_batch_without_changes_moves_the_cursor_and_gives_consumers_no_event(lake: Lake, run_dag: RunDag) -> None:
    lake.write_pipeline("told", initial_load="from_now")
    lake.append((1, "AA"))
    assert run_dag("told").by_task["commit"] == "success"
    assert (lake.changes(0), told("told"), told("told/partitions")) == ({}, [], [])
    lake.append((2, "UA"))
    assert run_dag("told").run_state == "success"
    assert (lake.changes(1), told("told"), told("told/partitions")) == ({("INSERT", 2, "UA"): 1}, [1], [1])


def test_a_range_is_delivered_to_a_place_of_its_own(lake: Lake, run_dag: RunDag) -> None:
    lake.write_pipeline("flights")
    after = lake.append((1, "AA"))
    up_to = lake.append((2, "UA"))
    lake.append((3, "DL"))
    done = run_dag("flights__backfill", after_snapshot_id=str(after), up_to_snapshot_id=str(up_to))
    assert done.run_state == "success"
    [backfill] = lake.backfills()
    assert lake.changes(0, below=f"_backfills/{backfill}") == {("INSERT", 2, "UA"): 1}

    again = run_dag("flights__backfill", after_snapshot_id=str(after), up_to_snapshot_id=str(up_to))
    assert again.run_state == "success"
    assert lake.backfills() == [backfill]


def test_a_commit_that_finds_a_part_deleted_has_it_written_again_where_tasks_run_in_airflow(
    lake: Lake, run_dag: RunDag, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_a_deletion(sink: ChangeFiles, summary: BatchSummary, *rest: Any) -> None:
        (lake.folder / f"changes/batch={summary.batch_number}/part-00000.parquet").unlink()
        patched.undo()
        commit_to_sink(sink, summary, *rest)

    lake.write_pipeline("flights")
    commit_to_sink = ChangeFiles.commit
    lake.append((1, "AA"), (2, "UA"))
    for change in (None, lake.replace_carrier):
        if change is not None:
            change(2, "DL")
        with monkeypatch.context() as patched:
            patched.setattr(ChangeFiles, "commit", after_a_deletion)
            assert run_dag("flights").run_state == "success"
    assert lake.changes(0) == {("INSERT", 1, "AA"): 1, ("INSERT", 2, "UA"): 1}
    assert lake.changes(1) == {("UPDATE_BEFORE", 2, "UA"): 1, ("UPDATE_AFTER", 2, "DL"): 1}


def test_a_missing_table_fails_and_is_waited_for_where_asked(lake: Lake, run_dag: RunDag) -> None:
    lake.write_pipeline("flights", table="nyc.trains")
    assert run_dag("flights").by_task["wait_for_snapshot"] == "failed"
    lake.write_pipeline("flights", table="nyc.trains", wait_for_table=True)
    assert run_dag("flights").by_task["nothing_to_do"] == "success"


def test_a_missing_spark_connection_fails_before_a_batch_is_opened(
    lake: Lake, run_dag: RunDag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    lake.write_pipeline("flights", engine="spark")
    lake.append((1, "AA"))
    assert run_dag("flights").by_task["plan"] == "failed"
    written = [path for path in (lake.folder / "storage").rglob("*") if path.is_file()]
    assert [path.name for path in written] == ["status.json"]
    trouble = json.loads(written[0].read_text())["trouble"]
    assert (trouble["phase"], trouble["is_final"]) == ("plan", True)
    assert "AIRFLOW_CONN_SPARK_DEFAULT" in trouble["sentence"]


@pytest.mark.parametrize("dag_id", ["once", "once__backfill"])
def test_a_commit_that_is_cleared_gives_consumers_no_second_event(
    lake: Lake, run_dag: RunDag, clear_task: ClearTask, dag_id: str
) -> None:
    lake.write_pipeline("once")
    with lake.table.update_spec() as spec:
        spec.add_identity("carrier")
    snapshot_id = lake.append((1, "AA"), (2, "UA"))
    first = run_dag(dag_id, **({} if dag_id == "once" else {"up_to_snapshot_id": str(snapshot_id)}))
    assert (told(dag_id), told(f"{dag_id}/partitions")) == ([0], [0, 0])
    before = xcoms(first.run_id)
    assert clear_task(dag_id, first.run_id, "commit") == "success"
    assert (told(dag_id), sorted(xcoms(first.run_id))) == ([0], sorted(before))
    assert told(f"{dag_id}/partitions") == [0, 0]


def test_a_commit_that_was_killed_before_its_end_gives_consumers_their_event(
    lake: Lake, run_dag: RunDag, clear_task: ClearTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.write_pipeline("killed")
    lake.append((1, "AA"))
    with monkeypatch.context() as patched:
        patched.setattr("icefloe.orchestration.tasks.calls.send_report", mock.Mock(side_effect=OSError("killed")))
        first = run_dag("killed")
    assert (first.by_task["commit"], told("killed"), told("killed/partitions")) == ("failed", [], [])
    assert clear_task("killed", first.run_id, "commit") == "success"
    assert (told("killed"), told("killed/partitions")) == ([0], [0])


def test_a_commit_that_is_cleared_after_later_batches_leaves_the_status_of_the_last_one(
    lake: Lake, run_dag: RunDag, clear_task: ClearTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def status() -> dict[str, Any]:
        found: dict[str, Any] = json.loads((lake.folder / "storage/checkpoints/later/status.json").read_text())
        return {key: value for key, value in found.items() if key != "updated_at"}

    lake.write_pipeline("later")
    lake.append((1, "AA"))
    first = run_dag("later")
    lake.append((2, "UA"))
    run_dag("later")
    lake.append((3, "DL"))
    with monkeypatch.context() as patched:
        full = mock.Mock(side_effect=TransientError("the disk is full"))
        patched.setattr("icefloe.engines.phase_runner.commit_batch", full)
        assert run_dag("later").by_task["commit"] == "failed"
    before = status()
    assert (before["open_batch"], before["trouble"]["sentence"]) == (2, "the disk is full")
    assert clear_task("later", first.run_id, "commit") == "success"
    assert (status(), told("later")) == (before, [0, 1])


@pytest.mark.spark
@pytest.mark.extended
def test_spark_runs_both_phases_and_passes_no_secret_through_airflow(
    lake: Lake, run_dag: RunDag, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "hunter2hunter2"
    connection = json.loads(lake.connection)
    connection["extra"]["s3.secret-access-key"] = secret
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    lake.write_pipeline("flights", engine="spark")
    lake.append((1, "AA"), (2, "UA"))
    assert run_dag("flights").run_state == "success"
    lake.replace_carrier(1, "B6")
    done = run_dag("flights")
    assert done.run_state == "success"
    assert lake.changes(1) == {("UPDATE_BEFORE", 1, "AA"): 1, ("UPDATE_AFTER", 1, "B6"): 1}
    assert secret not in xcoms(done.run_id)
    written = [path.read_bytes() for path in (lake.folder / "storage").rglob("*") if path.is_file()]
    assert not any(secret.encode() in data for data in written)


def test_the_dag_file_imports_fast_and_nothing_heavy() -> None:
    # Measured against Airflow's own part of the import; the figure is generous, tests run beside others.
    script = (
        "import sys, time; from airflow.sdk import DAG, Asset, BaseSensorOperator, Param, task;"
        "from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator;"
        "from airflow.providers.standard.operators.empty import EmptyOperator;"
        "before = time.process_time(); import icefloe.orchestration.dags.dag_factory;"
        "print(time.process_time() - before)"
    )
    seconds = (
        float(
            subprocess.run(
                [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
                capture_output=True, text=True, check=True,
            ).stdout.splitlines()[-1]
        )
        for _ in range(3)
    )  # fmt: skip
    assert any(each < 0.3 for each in seconds), airflow_environment.DAGS
