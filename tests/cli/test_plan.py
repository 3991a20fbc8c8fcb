import json

import pytest

from cli.test_kill import killed
from support.pipelines.workspace import Workspace, icefloe


def test_planning_creates_no_file_anywhere(workspace: Workspace) -> None:
    before = workspace.files()
    done = icefloe("plan", workspace.folder / "events.yaml")
    assert done.code == 0
    assert workspace.files() == before


def test_the_plan_of_the_initial_load(workspace: Workspace) -> None:
    done = icefloe("plan", workspace.folder / "events.yaml", "--json")
    [step] = done.document["steps"]
    assert step.pop("commit_timestamp").endswith("+00:00")
    head = str(workspace.head())
    assert step == {"change_ordinal": 0, "kind": "initial", "commit_snapshot_id": head, "snapshot_ids": [head]}
    assert done.document["bytes"] > 0
    expected = {"batch": 0, "is_open": False, "route": "insert_only", "files": 1, "rows": 10, "map_tasks": 1}
    assert done.document.items() >= expected.items()


def test_a_run_delivers_what_was_planned(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    icefloe("run", pipeline)
    workspace.update(1, value=2.0)
    workspace.append(11)
    planned = icefloe("plan", pipeline, "--json").document
    delivered = icefloe("run", pipeline).document
    shared = ("batch", "route", "after_snapshot_id", "up_to_snapshot_id")
    assert {key: planned[key] for key in shared} == {key: delivered[key] for key in shared}
    assert len(planned["steps"]) == delivered["steps"] == 2
    assert planned["partitions"] >= 64


def test_people_read_steps_route_partitions_and_why(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    icefloe("run", pipeline)
    workspace.update(1, value=2.0)
    out = icefloe("plan", pipeline).out
    assert str(workspace.head()) in out
    assert "shuffle" in out
    assert "(auto: " in out
    assert "file://" in out


def test_a_range_is_planned_as_a_backfill(workspace: Workspace) -> None:
    after = workspace.head()
    workspace.append(10, 11)
    done = icefloe("plan", workspace.folder / "events.yaml", "--after-snapshot-id", after, "--json")
    assert done.document["rows"] == 2
    assert done.document["backfill_id"].startswith(f"{after}-")


def test_nothing_to_do_is_no_error(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    icefloe("run", pipeline)
    assert "nothing to do" in icefloe("plan", pipeline).out
    done = icefloe("plan", pipeline, "--json")
    assert (done.code, json.loads(done.out)["batch"]) == (0, None)


@pytest.mark.parametrize("missing", [{"table": "db.later"}, {"table": "later.events"}, {"branch": "later"}], ids=str)
def test_a_table_or_branch_that_is_waited_for_leaves_nothing_to_do(
    workspace: Workspace, missing: dict[str, str]
) -> None:
    done = icefloe("plan", workspace.pipeline(wait_for_table=True, **missing))
    assert (done.code, done.out, done.err) == (0, "events: nothing to do\n", "")
    done = icefloe("plan", workspace.pipeline(wait_for_table=True, **missing), "--json")
    assert (done.code, done.document["batch"], done.document["route"]) == (0, None, "nothing_to_do")
    refused = icefloe("plan", workspace.pipeline(wait_for_table=False, **missing))
    assert (refused.code, refused.sentence) == (65, icefloe("run", workspace.pipeline(**missing)).sentence)


def test_a_backfill_delivered_before_is_not_planned_again(workspace: Workspace) -> None:
    arguments = (workspace.folder / "events.yaml", "--up-to-snapshot-id", workspace.head())
    icefloe("run", *arguments)
    assert "delivered before" in icefloe("plan", *arguments).out


def test_an_open_batch_is_shown_as_such(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    killed("after", 1, "*/shuffle/events/*/0/plan.json", pipeline)
    workspace.append(11)
    before = workspace.files()
    assert "batch 0 is open since" in icefloe("plan", pipeline).out
    document = icefloe("plan", pipeline, "--json").document
    assert (document["is_open"], document["rows"]) == (True, 10)
    assert workspace.files() == before


def test_a_batch_that_reads_too_much_is_planned_and_shown_as_refused(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(max_scan_bytes=1)
    refused = icefloe("run", pipeline)
    assert refused.code == 65
    planned = icefloe("plan", pipeline, "--json")
    assert (planned.code, planned.document["refusal"]) == (0, refused.sentence)
    assert f"would read {planned.document['bytes']:,} bytes of files" in refused.sentence
    assert f"a run refuses this: {refused.sentence}" in icefloe("plan", pipeline).out
    assert icefloe("plan", workspace.pipeline(max_scan_bytes="1MiB"), "--json").document["refusal"] is None


def test_steps_left_to_later_batches_are_counted(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(initial_load="from_earliest", max_steps_per_batch=2)
    for number in range(10, 13):
        workspace.append(number)
    document = icefloe("plan", pipeline, "--json").document
    assert (len(document["steps"]), document["snapshots_after"], document["delete_files"]) == (2, 2, 0)
    assert ["snapshots", "after", "it", "2"] in [line.split() for line in icefloe("plan", pipeline).out.splitlines()]
    backfill = icefloe("plan", pipeline, "--up-to-snapshot-id", workspace.head(), "--json").document
    assert (len(backfill["steps"]), backfill["snapshots_after"]) == (4, None)


def test_plan_refuses_a_pipeline_that_run_refuses(workspace: Workspace) -> None:
    assert icefloe("plan", workspace.pipeline(sink={"type": "iceberg", "table": "a.b"})).code == 65
    assert icefloe("plan", workspace.pipeline(table="db.evnts")).code == 65
    assert icefloe("plan", "no/such.yaml").code == 2


def test_the_selection_is_in_the_plan(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(columns=["word", "value"], filter="id < 5")
    document = icefloe("plan", pipeline, "--json").document
    assert (document["columns"], document["filter"]) == (["word", "value"], "id < 5")
    out = icefloe("plan", pipeline).out
    assert "word, value" in out
    assert "id < 5" in out
    everything = icefloe("plan", workspace.pipeline(), "--json").document
    assert (everything["columns"], everything["filter"]) == (None, None)


def test_files_that_hold_no_row_that_passes_are_not_planned(workspace: Workspace) -> None:
    workspace.append(*range(100, 120))
    everything = icefloe("plan", workspace.pipeline(), "--json").document
    late = icefloe("plan", workspace.pipeline(filter="id >= 100"), "--json").document
    assert (everything["files"], late["files"], late["rows"]) == (2, 1, 20)
    assert 0 < late["bytes"] < everything["bytes"]
    none = icefloe("run", workspace.pipeline(filter="id > 1000"))
    assert (none.code, none.document["insert"]) == (0, 0)
    assert icefloe("verify", workspace.folder / "events.yaml").code == 0
