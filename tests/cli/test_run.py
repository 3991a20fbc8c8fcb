import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.pipelines.workspace import Workspace, forked_module, icefloe, icefloe_process

KEYS = [
    "batch", "route", "after_snapshot_id", "up_to_snapshot_id", "steps",
    "insert", "delete", "update_before", "update_after",
]  # fmt: skip
NOTHING = {"batch": None, "route": "nothing_to_do", "after_snapshot_id": None, "up_to_snapshot_id": None, "steps": 0}


def test_the_first_run_delivers_the_initial_load(workspace: Workspace) -> None:
    done = icefloe("run", workspace.folder / "events.yaml")
    assert done.code == 0
    assert list(done.document) == KEYS
    assert done.document == {
        "batch": 0, "route": "insert_only", "after_snapshot_id": None, "up_to_snapshot_id": str(workspace.head()),
        "steps": 1, "insert": 10, "delete": 0, "update_before": 0, "update_after": 0,
    }  # fmt: skip
    assert workspace.manifest(0)["batch"]["rows"] == 10


def test_a_run_after_an_update_goes_by_the_shuffle(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    first = icefloe("run", pipeline).document["up_to_snapshot_id"]
    workspace.update(1, 2, 3, value=2.0)
    workspace.delete(9)
    done = icefloe("run", pipeline)
    assert done.document == {
        "batch": 1, "route": "shuffle", "after_snapshot_id": first, "up_to_snapshot_id": str(workspace.head()),
        "steps": 2, "insert": 0, "delete": 1, "update_before": 3, "update_after": 3,
    }  # fmt: skip


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


def test_with_json_nothing_else_is_printed(workspace: Workspace) -> None:
    done = icefloe("run", workspace.folder / "events.yaml", "--json")
    assert done.out.count("\n") == 1
    assert json.loads(done.out)["insert"] == 10
    assert done.err == ""


def test_without_json_people_read_the_same_before_the_last_line(workspace: Workspace) -> None:
    lines = icefloe("run", workspace.folder / "events.yaml").out.splitlines()
    assert any(line.split() == ["insert", "10"] for line in lines)
    assert any(line.split() == ["route", "insert_only"] for line in lines)
    assert json.loads(lines[-1])["batch"] == 0


def test_a_quiet_table_is_nothing_to_do_and_exits_0(workspace: Workspace) -> None:
    icefloe("run", workspace.folder / "events.yaml")
    done = icefloe("run", workspace.folder / "events.yaml")
    assert done.code == 0
    assert "nothing to do" in done.out
    assert done.document.items() >= NOTHING.items()
    assert list(done.document) == KEYS


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
    bounds = ("--after-snapshot-id", after, "--up-to-snapshot-id", up_to)
    done = icefloe("run", pipeline, *bounds)
    assert done.document["insert"] == 2
    assert (done.document["after_snapshot_id"], done.document["up_to_snapshot_id"]) == (str(after), str(up_to))
    assert icefloe("run", pipeline).document["batch"] == 0
    [backfill] = (workspace.output() / "_backfills").iterdir()
    assert workspace.manifest(0, below=f"_backfills/{backfill.name}")["batch"]["rows"] == 2


def test_a_backfill_delivered_before_prints_the_recorded_report(workspace: Workspace) -> None:
    arguments = ("run", workspace.folder / "events.yaml", "--up-to-snapshot-id", workspace.head())
    first, files = icefloe(*arguments), workspace.files()
    second = icefloe(*arguments)
    assert second.code == 0
    assert second.document == first.document
    assert "delivered before" in second.out
    assert workspace.files() == files


def test_a_range_may_be_given_as_timestamps(workspace: Workspace) -> None:
    moment = datetime.fromtimestamp(workspace.table.metadata.snapshots[-1].timestamp_ms / 1000, UTC)
    workspace.append(10, 11)
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    arguments = ("--after-timestamp", moment.isoformat(), "--up-to-timestamp", later)
    done = icefloe("run", workspace.folder / "events.yaml", *arguments)
    assert (done.code, done.document["insert"]) == (0, 2)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--after-timestamp", "2026-01-01T00:00"),
        ("--after-timestamp", "yesterday"),
        ("--after-snapshot-id", "1", "--after-timestamp", "2026-01-01T00:00Z"),
        ("--after-snapshot-id", "first"),
        ("--engine", "flink"),
        ("--unknown",),
    ],
)
def test_wrong_usage_exits_2(workspace: Workspace, arguments: tuple[str, ...]) -> None:
    pipeline = [workspace.folder / "events.yaml"] if arguments else []
    done = icefloe("run", *pipeline, *arguments)
    assert done.code == 2
    assert done.out == ""


def test_an_unknown_pipeline_exits_2(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace.folder)
    assert icefloe("run", "evnts").code == 2
    done = icefloe("run", "no/such.yaml")
    assert done.code == 2
    assert "no/such.yaml" in done.sentence


def test_a_pipeline_is_found_by_name_in_dags_pipelines(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = workspace.folder / "dags" / "pipelines"
    folder.mkdir(parents=True)
    (workspace.folder / "events.yaml").rename(folder / "events.yaml")
    monkeypatch.chdir(workspace.folder)
    assert icefloe("run", "events").document["insert"] == 10


def test_a_pipeline_that_waits_for_its_table_has_nothing_to_do_until_it_is_there(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(table="db.later", wait_for_table=True)
    done = icefloe("run", pipeline)
    assert done.code == 0
    assert done.document.items() >= NOTHING.items()


def test_the_engine_can_be_chosen_for_one_run(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(engine="spark", spark={"conf": {"spark.master": "nowhere"}})
    refused = icefloe("run", pipeline)
    assert refused.code == 65
    assert "nowhere" in refused.sentence
    assert icefloe("run", pipeline, "--engine", "local").code == 0


def test_a_warning_of_the_library_goes_to_standard_error(workspace: Workspace) -> None:
    done = icefloe("run", workspace.folder / "events.yaml", "--json", "--verbose")
    assert done.out.count("\n") == 1
    assert "batch 0" in done.err


@pytest.mark.slow
def test_the_module_runs_as_a_program(workspace: Workspace) -> None:
    done = icefloe_process("run", workspace.folder / "events.yaml", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["insert"] == 10


@pytest.mark.slow
def test_a_program_exits_with_the_code_of_its_error(workspace: Workspace, tmp_path: Path) -> None:
    pipeline = workspace.pipeline(table="db.evnts")
    done = icefloe_process("run", pipeline)
    assert (done.code, done.out) == (65, "")
    assert "did you mean db.events?" in done.sentence
    (tmp_path / "catalog.db").unlink()
    assert forked_module("icefloe", "run", pipeline).code == 75
    assert forked_module("icefloe", "run").code == 2


@pytest.mark.spark
def test_the_spark_engine_delivers_the_same_by_spark_submit(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(spark={"conf": {"spark.master": "local[1]"}})
    done = icefloe("run", pipeline, "--engine", "spark", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.document["insert"] == 10
    assert icefloe("verify", pipeline).code == 0
