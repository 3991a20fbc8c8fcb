"""``icefloe batches`` and ``icefloe show``."""

import json
from pathlib import Path

import pytest

from cli.test_kill import killed
from support.pipelines.workspace import Workspace, icefloe


@pytest.fixture
def two_batches(workspace: Workspace) -> Path:
    pipeline = workspace.pipeline()
    icefloe("run", pipeline)
    workspace.update(1, 2, value=2.0)
    icefloe("run", pipeline)
    return pipeline


def test_before_the_first_batch_there_are_none(workspace: Workspace) -> None:
    pipeline = workspace.pipeline()
    assert icefloe("batches", pipeline).out == "events: no batch yet\n"
    assert icefloe("batches", pipeline, "--json").document == {"pipeline": "events", "backfill_id": None, "batches": []}
    done = icefloe("show", pipeline)
    assert (done.code, done.sentence.endswith("has no batch yet; run the pipeline first")) == (2, True)


def test_batches_come_newest_first_also_without_the_table(workspace: Workspace, two_batches: Path) -> None:
    workspace.table.catalog.drop_table("db.events")
    done = icefloe("batches", two_batches, "--json")
    newest, oldest = done.document["batches"]
    assert (newest["batch"], newest["route"], newest["update_after"]) == (1, "shuffle", 2)
    assert (oldest["batch"], oldest["route"], oldest["insert"]) == (0, "insert_only", 10)
    assert newest["seconds"] > 0
    assert len(done.out.splitlines()) == 1
    header, *rows = icefloe("batches", two_batches).out.splitlines()
    assert header.split()[:3] == ["batch", "state", "at"]
    assert [row.split()[:2] for row in rows] == [["1", "committed"], ["0", "committed"]]
    [last] = icefloe("batches", two_batches, "--limit", 1, "--json").document["batches"]
    assert last["batch"] == 1
    assert icefloe("batches", two_batches, "--limit", 0).code == 2


def test_a_batch_is_shown_with_phases_and_spread(workspace: Workspace, two_batches: Path) -> None:
    done = icefloe("show", two_batches, "--batch", 1)
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines() if line]
    assert ["update", "after", "2"] in lines
    phases = ["plan", "shuffle_write", "coalesce", "shuffle_read", "commit"]
    assert [line[0] for line in lines if line[0] in phases] == phases
    assert "map task bytes" in done.out
    assert "range seconds" in done.out
    kept = json.loads((workspace.storage() / "checkpoints/events/reports/1.json").read_text())
    as_json = icefloe("show", two_batches, "--json")
    assert (as_json.document, len(as_json.out.splitlines())) == (kept, 1)
    never = icefloe("show", two_batches, "--batch", 7)
    assert (never.code, "has no batch 7: it has batches 0 to 1" in never.sentence) == (2, True)


def test_an_open_batch_is_on_top_and_shows_how_it_began(workspace: Workspace) -> None:
    pipeline = workspace.pipeline()
    killed("after", 1, "*/shuffle/events/*/0/plan.json", pipeline)
    [batch] = icefloe("batches", pipeline, "--json").document["batches"]
    assert (batch["batch"], batch["state"], batch["route"]) == (0, "open", None)
    document = icefloe("show", pipeline, "--json").document
    assert (document["batch_number"], document["is_open"]) == (0, True)
    assert document["opened_at"] in icefloe("show", pipeline).out


def test_an_open_batch_shows_its_phases_and_the_rows_that_its_checks_found_wrong(workspace: Workspace) -> None:
    workspace.append(20, 21, value=4711.5)
    checks = [
        {"name": "large", "query": "SELECT id, value FROM changes WHERE value > 100 ORDER BY id"},
        {"name": "negative", "query": "FROM changes WHERE value < 0"},
    ]
    pipeline = workspace.pipeline(checks=checks)
    assert icefloe("run", pipeline).code == 65
    document = icefloe("show", pipeline, "--batch", 0, "--json").document
    assert [each["phase"] for each in document["phases"]] == ["plan", "insert_only", "check"]
    large, negative = document["phases"][-1]["checks"]
    assert (large["outcome"], large["samples"][0]) == ("failed", {"id": "20", "value": "4711.5"})
    assert (negative["outcome"], negative["samples"]) == ("passed", [])
    lines = [line.split() for line in icefloe("show", pipeline, "--batch", 0).out.splitlines() if line]
    phases = ["plan", "insert_only", "check"]
    assert [line[0] for line in lines if line[0] in phases] == phases
    assert ["large", "failed", "2", "-"] in lines
    assert ["negative", "passed", "0", "-"] in lines
    assert [line for line in lines if line[0] in ("20", "21")] == [["20", "4711.5"], ["21", "4711.5"]]


def test_a_batch_of_a_backfill_is_found_by_the_backfills_id(workspace: Workspace) -> None:
    pipeline = workspace.pipeline()
    icefloe("run", pipeline, "--up-to-snapshot-id", workspace.head())
    [backfill] = (workspace.storage() / "checkpoints/events/backfills").iterdir()
    document = icefloe("show", pipeline, "--backfill", backfill.name, "--json").document
    assert (document["backfill_id"], document["batch"]["counts"]["insert"]) == (backfill.name, 10)


def test_a_batch_whose_report_was_deleted_is_shown_by_its_commit(workspace: Workspace, two_batches: Path) -> None:
    before = icefloe("batches", two_batches, "--json").document["batches"]
    (workspace.storage() / "checkpoints/events/reports/1.json").unlink()
    counted = ("batch", "state", "at", "route", "steps", "insert", "delete", "update_after")
    found = icefloe("batches", two_batches, "--json").document["batches"]
    assert [{name: each[name] for name in counted} for each in found] == [
        {name: each[name] for name in counted} for each in before
    ]
    shown = icefloe("show", two_batches, "--json").document
    [warning] = shown["warnings"]
    assert warning.endswith("checkpoints/events is missing: the figures of its tasks are unknown")
    assert (shown["seconds"], shown["phases"], shown["batch"]["rows"]) == (None, [], 4)


def test_a_backfill_whose_report_was_deleted_stays_delivered(workspace: Workspace) -> None:
    pipeline, span = workspace.pipeline(), ("--up-to-snapshot-id", workspace.head())
    done = icefloe("run", pipeline, *span)
    [report] = (workspace.storage() / "checkpoints/events/backfills").glob("*/reports/0.json")
    report.unlink()
    again = icefloe("run", pipeline, *span)
    assert (again.code, again.document, "was delivered before" in again.out) == (0, done.document, True)
    document = icefloe("show", pipeline, "--backfill", report.parents[1].name, "--json").document
    assert document["backfill_id"] == report.parents[1].name
