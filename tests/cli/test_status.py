import json

import pytest

from cli.test_kill import killed
from support.pipelines.workspace import Workspace, icefloe


def test_the_lag_counts_snapshots_and_rows_since_the_cursor(workspace: Workspace) -> None:
    pipeline, before = workspace.folder / "events.yaml", workspace.files()
    done = icefloe("status", pipeline, "--json")
    assert done.code == 0
    assert done.document.pop("lag_seconds") > 0
    assert done.document.items() >= {
        "pipeline": "events", "last_batch": None, "cursor_snapshot_id": None, "head_snapshot_id": str(workspace.head()),
        "lag_snapshots": 1, "lag_rows": 10, "open_batch": None, "open_since": None,
        "trouble": None,
    }.items()  # fmt: skip
    lines = [line.split() for line in icefloe("status", pipeline).out.splitlines()]
    assert all(line in lines for line in (["table", "db.events"], ["cursor", "snapshot", "id", "-"], ["trouble", "-"]))
    assert workspace.files() == before
    icefloe("run", pipeline)
    document = icefloe("status", pipeline, "--json").document
    assert document["cursor_snapshot_id"] == document["head_snapshot_id"] == str(workspace.head())
    assert (document["lag_snapshots"], document["lag_rows"], document["lag_seconds"]) == (0, 0, 0.0)
    assert document["last_batch"] == 0
    workspace.append(10)
    workspace.append(11, 12)
    document = icefloe("status", pipeline, "--json").document
    assert (document["lag_snapshots"], document["lag_rows"]) == (2, 3)


def test_a_cursor_outside_the_history_has_no_known_lag_and_says_why(workspace: Workspace) -> None:
    icefloe("run", workspace.folder / "events.yaml")
    for snapshot_id in (workspace.head(), workspace.append(11), workspace.append(12))[:2]:
        workspace.table.maintenance.expire_snapshots().by_id(snapshot_id).commit()
    before = workspace.files()
    done = icefloe("status", workspace.folder / "events.yaml", "--json")
    document = done.document
    assert (document["lag_snapshots"], document["lag_rows"], document["lag_seconds"]) == (None, None, None)
    assert document["trouble"] == icefloe("plan", workspace.folder / "events.yaml").sentence
    assert "set on_gap: reload" in document["trouble"]
    assert (done.code, workspace.files()) == (0, before)


@pytest.mark.parametrize("missing", [{"table": "db.later"}, {"table": "later.events"}, {"branch": "later"}], ids=str)
def test_a_missing_table_or_branch_is_named_and_no_trouble_if_the_pipeline_waits_for_it(
    workspace: Workspace, missing: dict[str, str]
) -> None:
    before = workspace.files()
    refused = icefloe("status", workspace.pipeline(wait_for_table=False, **missing))
    assert refused.code == 65
    pipeline = workspace.pipeline(wait_for_table=True, **missing)
    done = icefloe("status", pipeline, "--json")
    assert (done.code, done.err) == (0, "")
    assert done.document.items() >= {
        "last_batch": None, "head_snapshot_id": None, "lag_snapshots": None, "lag_seconds": None,
        "waits_for": refused.sentence, "trouble": None,
    }.items()  # fmt: skip
    assert "waits for " in icefloe("status", pipeline).out
    assert workspace.files() == before


def test_checkpoint_and_edits_are_shown_while_a_pipeline_waits(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(wait_for_table=True)
    known = icefloe("run", pipeline).document["up_to_snapshot_id"]
    assert icefloe("status", pipeline, "--json").document["waits_for"] is None
    edited = workspace.pipeline(wait_for_table=True, branch="later", identifier_columns=["word"])
    document = icefloe("status", edited, "--json").document
    assert "has no branch 'later'" in document["waits_for"]
    assert document["trouble"] == icefloe("run", edited).sentence
    assert 'identifier_columns was ["id"] and is ["word"]' in document["trouble"]
    out = icefloe("status", edited).out
    assert 'identifier_columns was ["id"] and is ["word"]' in " ".join(out[out.index("\ntrouble ") :].split())
    workspace.table.catalog.drop_table("db.events")
    document = icefloe("status", workspace.pipeline(wait_for_table=True), "--json").document
    assert (document["last_batch"], document["cursor_snapshot_id"], document["lag_snapshots"]) == (0, known, None)
    assert "has no table db.events" in document["waits_for"]


def test_an_open_batch_is_shown_with_the_time_it_was_opened(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    killed("after", 1, "*/shuffle/events/*/0/plan.json", pipeline)
    document = icefloe("status", pipeline, "--json").document
    assert (document["open_batch"], document["open_since"][-6:]) == (0, "+00:00")
    assert document["open_since"] in icefloe("status", pipeline).out


def test_a_catalog_that_is_down_exits_75(workspace: Workspace) -> None:
    (workspace.folder / "catalog.db").unlink()
    assert icefloe("status", workspace.folder / "events.yaml").code == 75


def test_the_last_failure_and_the_expiry_of_the_cursor_are_reported(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    icefloe("run", pipeline)
    document = icefloe("status", pipeline, "--json").document
    assert (document["last_failure"], document["next_expiry"]) == (None, None)
    workspace.append(10)
    assert icefloe("run", workspace.pipeline(columns=["vlue"])).code == 65
    document = icefloe("status", workspace.pipeline(), "--json").document
    assert " plan: " in document["last_failure"]
    assert document["next_expiry"]["at"].endswith("+00:00")
    icefloe("run", pipeline)
    assert icefloe("status", pipeline, "--json").document["last_failure"] is None


def test_a_snapshot_that_a_wrong_clock_dates_beyond_every_year_is_shown_and_delivered(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    icefloe("run", pipeline)
    workspace.append(10)
    metadata = workspace.metadata()
    metadata["snapshots"][-1]["timestamp-ms"] = 10**15
    workspace.metadata_file.write_text(json.dumps(metadata))
    document = icefloe("status", pipeline, "--json").document
    assert (document["lag_snapshots"], document["lag_seconds"]) == (1, 0.0)
    assert "9999-12-31" in icefloe("plan", pipeline).out
    done = icefloe("run", pipeline)
    assert (done.code, done.err) == (0, "")
