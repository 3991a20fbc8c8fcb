import json
from datetime import UTC, datetime, timedelta

import pytest

from icefloe.cli.pipeline_session import credentials_here, warn_of_conn_ids
from icefloe.pipeline.model import Pipeline
from support.pipelines.workspace import Workspace, forked_module, icefloe, icefloe_process

KEYS = [
    "batch", "route", "after_snapshot_id", "up_to_snapshot_id", "steps",
    "insert", "delete", "update_before", "update_after",
]  # fmt: skip
NOTHING = {"batch": None, "route": "nothing_to_do", "after_snapshot_id": None, "up_to_snapshot_id": None, "steps": 0}


def test_runs_go_by_the_route_of_their_changes_and_a_quiet_one_has_nothing_to_do(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    done = icefloe("run", pipeline)
    assert (done.code, list(done.document)) == (0, KEYS)
    first = str(workspace.head())
    assert done.document == {
        "batch": 0, "route": "insert_only", "after_snapshot_id": None, "up_to_snapshot_id": first,
        "steps": 1, "insert": 10, "delete": 0, "update_before": 0, "update_after": 0,
    }  # fmt: skip
    assert ["insert", "10"] in [line.split() for line in done.out.splitlines()]
    assert ["route", "insert_only"] in [line.split() for line in done.out.splitlines()]
    assert workspace.manifest(0)["batch"]["rows"] == 10
    workspace.update(1, 2, 3, value=2.0)
    workspace.delete(9)
    done = icefloe("run", pipeline, "--json")
    assert json.loads(done.out) == {
        "batch": 1, "route": "shuffle", "after_snapshot_id": first, "up_to_snapshot_id": str(workspace.head()),
        "steps": 2, "insert": 0, "delete": 1, "update_before": 3, "update_after": 3,
    }  # fmt: skip
    assert (done.out.count("\n"), done.err) == (1, "")
    quiet = icefloe("run", pipeline)
    assert (quiet.code, "nothing to do" in quiet.out, list(quiet.document)) == (0, True, KEYS)
    assert quiet.document.items() >= NOTHING.items()


def test_a_pipeline_of_net_changes_delivers_the_last_state_against_the_first(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(changes="net")
    icefloe("run", pipeline)
    workspace.update(1, 2, value=2.0)
    workspace.append(11, 12)
    workspace.delete(11, 9)
    workspace.update(1, value=1.0)
    assert icefloe("plan", pipeline, "--json").document["changes"] == "net"
    done = icefloe("run", pipeline)
    expected = {"route": "shuffle", "steps": 4, "insert": 1, "delete": 1, "update_before": 1, "update_after": 1}
    assert done.document.items() >= expected.items()
    changes = [row for part in workspace.delivered(1).values() for row in part]
    assert {(row["id"], row["_change_type"], row["_change_ordinal"]) for row in changes} == {
        (2, "UPDATE_BEFORE", 0), (2, "UPDATE_AFTER", 0), (12, "INSERT", 1), (9, "DELETE", 2),
    }  # fmt: skip
    assert icefloe("verify", pipeline).code == 0


def test_a_run_that_leaves_snapshots_to_later_batches_says_so(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(initial_load="from_earliest", max_steps_per_batch=2)
    for number in range(10, 13):
        workspace.append(number)
    assert "2 snapshots are left to later batches: run again" in icefloe("run", pipeline).out.splitlines()
    assert "run again" not in icefloe("run", pipeline).out
    assert icefloe("run", pipeline).document["batch"] is None


def test_rows_rewritten_unchanged_make_a_batch_without_changes(workspace: Workspace) -> None:
    icefloe("run", workspace.folder / "events.yaml")
    workspace.update(3, value=1.0)
    done = icefloe("run", workspace.folder / "events.yaml")
    assert (done.code, done.document["batch"], done.document["route"]) == (0, 1, "shuffle")
    assert done.document["update_after"] == 0
    assert workspace.manifest(1)["parts"] == []


def test_a_range_is_a_backfill_that_leaves_the_cursor_alone(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    after = workspace.head()
    up_to = workspace.append(10, 11)
    workspace.append(12)
    done = icefloe("run", pipeline, "--after-snapshot-id", after, "--up-to-snapshot-id", up_to)
    assert done.document["insert"] == 2
    assert (done.document["after_snapshot_id"], done.document["up_to_snapshot_id"]) == (str(after), str(up_to))
    files = workspace.files()
    again = icefloe("run", pipeline, "--after-snapshot-id", after, "--up-to-snapshot-id", up_to)
    assert (again.code, again.document, workspace.files()) == (0, done.document, files)
    assert "delivered before" in again.out
    assert icefloe("run", pipeline).document["batch"] == 0
    [backfill] = (workspace.output() / "_backfills").iterdir()
    assert workspace.manifest(0, below=f"_backfills/{backfill.name}")["batch"]["rows"] == 2


def test_a_range_may_be_given_as_timestamps(workspace: Workspace) -> None:
    head = workspace.head()
    moment = datetime.fromtimestamp(workspace.table.metadata.snapshots[-1].timestamp_ms / 1000, UTC)
    workspace.append(10, 11)
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for after in (("--after-timestamp", moment.isoformat()), ("--after-snapshot-id", head)):
        done = icefloe("run", workspace.folder / "events.yaml", *after, "--up-to-timestamp", later)
        assert (done.code, done.document["insert"]) == (0, 2)


@pytest.mark.parametrize(
    "arguments",
    [
        "", "{} --after-timestamp 2026-01-01T00:00", "{} --after-timestamp yesterday", "{} --engine flink",
        "{} --unknown", "{} --after-snapshot-id 1 --after-timestamp 2026-01-01T00:00Z", "{} --after-snapshot-id first",
        "no/such.yaml",
        "evnts",
    ],
)  # fmt: skip
def test_wrong_usage_exits_2(workspace: Workspace, arguments: str) -> None:
    done = icefloe("run", *arguments.format(workspace.folder / "events.yaml").split())
    assert (done.code, done.out) == (2, "")


def test_a_pipeline_is_found_by_name_in_dags_pipelines(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = workspace.folder / "dags" / "pipelines"
    folder.mkdir(parents=True)
    (workspace.folder / "events.yaml").rename(folder / "events.yaml")
    monkeypatch.chdir(workspace.folder)
    assert icefloe("run", "events").document["insert"] == 10


def test_a_pipeline_that_waits_for_its_table_has_nothing_to_do_until_it_is_there(workspace: Workspace) -> None:
    done = icefloe("run", workspace.pipeline(table="db.later", wait_for_table=True))
    assert done.code == 0
    assert done.document.items() >= NOTHING.items()


def test_the_engine_of_the_command_counts_before_anything_asks_for_it(workspace: Workspace) -> None:
    for conf, word in (({"spark.master": "nowhere"}, "nowhere"), ({"spark.cores.max": "many"}, "spark.cores.max")):
        refused = icefloe("run", workspace.pipeline(engine="spark", spark={"conf": conf}))
        assert (refused.code, word in refused.sentence) == (65, True)
    done = icefloe("run", workspace.folder / "events.yaml", "--engine", "local", "--json", "--verbose")
    assert (done.code, done.out.count("\n"), "batch 0" in done.err) == (0, 1, True)


def test_a_connection_of_airflow_is_said_to_be_unknown_here(workspace: Workspace) -> None:
    done = icefloe("run", workspace.pipeline(storage_conn_id="lake"), "--json")
    assert done.code == 0
    assert "storage_conn_id names the Airflow connection 'lake'" in done.sentence
    assert "the machine's own identity is used" in done.sentence


def test_the_password_of_a_sink_is_found_in_the_environment(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = {"type": "opensearch", "index": "events", "conn_id": "search"}
    pipeline = Pipeline.load(workspace.pipeline(sink=sink), environ={})
    warn_of_conn_ids(pipeline)
    assert "unknown outside Airflow: set AIRFLOW_CONN_SEARCH to it, in JSON" in caplog.text
    caplog.clear()
    monkeypatch.setenv("AIRFLOW_CONN_SEARCH", '{"host": "https://search.example", "password": "pw"}')
    warn_of_conn_ids(pipeline)
    assert caplog.text == ""
    assert credentials_here(pipeline).sink_connection["password"] == "pw"
    files = workspace.pipeline(sink={"type": "files", "path": "file:///x", "conn_id": "search"})
    assert credentials_here(Pipeline.load(files, environ={})).sink_connection == {}


@pytest.mark.slow
def test_a_program_exits_with_the_code_of_its_error(workspace: Workspace) -> None:
    done = icefloe_process("run", workspace.folder / "events.yaml", "--json")
    assert (done.code, done.err, json.loads(done.out)["insert"]) == (0, "", 10)
    done = icefloe_process("run", pipeline := workspace.pipeline(table="db.evnts"))
    assert (done.code, done.out, "did you mean db.events?" in done.sentence) == (65, "", True)
    (workspace.folder / "catalog.db").unlink()
    assert forked_module("icefloe", "run", pipeline).code == 75
    assert forked_module("icefloe", "run").code == 2


@pytest.mark.spark
def test_the_spark_engine_delivers_the_same_by_spark_submit(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(spark={"conf": {"spark.master": "local[1]"}})
    done = icefloe("run", pipeline, "--engine", "spark", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.document["insert"] == 10
    assert icefloe("verify", pipeline).code == 0
