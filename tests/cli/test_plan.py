import json

import pytest

from cli.test_kill import killed
from support.pipelines.workspace import Workspace, icefloe


def test_the_plan_of_the_initial_load_creates_no_file_anywhere(workspace: Workspace) -> None:
    before = workspace.files()
    done = icefloe("plan", workspace.folder / "events.yaml", "--json")
    assert workspace.files() == before
    [step] = done.document["steps"]
    assert step.pop("commit_timestamp").endswith("+00:00")
    head = str(workspace.head())
    assert step == {"change_ordinal": 0, "kind": "initial", "commit_snapshot_id": head, "snapshot_ids": [head]}
    assert done.document["bytes"] > 0
    expected = {"batch": 0, "is_open": False, "route": "insert_only", "files": 1, "rows": 10, "map_tasks": 1}
    assert done.document.items() >= expected.items()


def test_a_run_delivers_what_was_planned_and_people_read_why(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    icefloe("run", pipeline)
    workspace.update(1, value=2.0)
    workspace.append(11)
    out = icefloe("plan", pipeline).out
    assert all(word in out for word in (str(workspace.head()), "shuffle", "auto: ", "file://"))
    planned = icefloe("plan", pipeline, "--json").document
    delivered = icefloe("run", pipeline).document
    shared = ("batch", "route", "after_snapshot_id", "up_to_snapshot_id")
    assert {key: planned[key] for key in shared} == {key: delivered[key] for key in shared}
    assert len(planned["steps"]) == delivered["steps"] == 2
    assert planned["partitions"] >= 64
    assert "nothing to do" in icefloe("plan", pipeline).out
    done = icefloe("plan", pipeline, "--json")
    assert (done.code, json.loads(done.out)["batch"]) == (0, None)


def test_a_range_is_planned_as_a_backfill_unless_it_was_delivered_before(workspace: Workspace) -> None:
    after = workspace.head()
    workspace.append(10, 11)
    arguments = (workspace.folder / "events.yaml", "--after-snapshot-id", after)
    document = icefloe("plan", *arguments, "--json").document
    assert (document["rows"], document["backfill_id"].startswith(f"{after}-")) == (2, True)
    icefloe("run", *arguments)
    assert "delivered before" in icefloe("plan", *arguments).out


def test_the_partitions_are_listed_if_asked_for_without_those_that_a_filter_rules_out(workspace: Workspace) -> None:
    with workspace.table.update_spec() as spec:
        spec.add_identity("word")
    pipeline = workspace.folder / "events.yaml"
    icefloe("run", pipeline)
    workspace.append(11, 12)
    planned = icefloe("plan", pipeline, "--partitions", "--json").document["changed_partitions"]
    assert planned == [{"spec_id": 1, "path": "word=word+11"}, {"spec_id": 1, "path": "word=word+12"}]
    assert "word=word+12" in icefloe("plan", pipeline, "--partitions").out
    assert "word=word+12" not in icefloe("plan", pipeline).out
    filtered = workspace.pipeline("filtered", filter="word = 'word 12'", initial_load="from_earliest")
    planned = icefloe("plan", filtered, "--partitions", "--json").document["changed_partitions"]
    assert [each["path"] for each in planned] == ["", "word=word+12"]
    icefloe("run", pipeline)
    assert icefloe("plan", pipeline, "--partitions", "--json").document["changed_partitions"] == []


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
    assert icefloe("status", pipeline, "--json").document["trouble"] == refused.sentence
    assert icefloe("plan", workspace.pipeline(max_scan_bytes="1MiB"), "--json").document["refusal"] is None


def test_steps_left_to_later_batches_are_counted(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(initial_load="from_earliest", max_steps_per_batch=2)
    for number in range(10, 13):
        workspace.append(number)
    document = icefloe("plan", pipeline, "--json").document
    assert (len(document["steps"]), document["snapshots_after"], document["delete_files"]) == (2, 2, 0)
    assert ["snapshots", "after", "2"] in [line.split() for line in icefloe("plan", pipeline).out.splitlines()]
    backfill = icefloe("plan", pipeline, "--up-to-snapshot-id", workspace.head(), "--json").document
    assert (len(backfill["steps"]), backfill["snapshots_after"]) == (4, None)


def test_the_selection_is_in_the_plan_and_files_without_a_row_that_passes_are_not(workspace: Workspace) -> None:
    workspace.append(*range(100, 120))
    everything = icefloe("plan", workspace.pipeline(), "--json").document
    assert (everything["columns"], everything["filter"], everything["files"]) == (None, None, 2)
    pipeline = workspace.pipeline(columns=["word", "value"], filter="id >= 100")
    late = icefloe("plan", pipeline, "--json").document
    assert (late["columns"], late["filter"]) == (["word", "value"], "id >= 100")
    assert (late["files"], late["rows"], 0 < late["bytes"] < everything["bytes"]) == (1, 20, True)
    out = icefloe("plan", pipeline).out
    assert ("word, value" in out, "id >= 100" in out) == (True, True)
    none = icefloe("run", workspace.pipeline(filter="id > 1000"))
    assert (none.code, none.document["insert"]) == (0, 0)
    assert icefloe("verify", workspace.folder / "events.yaml").code == 0
