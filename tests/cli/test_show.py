import json

from cli.test_kill import killed
from support.pipelines.workspace import Workspace, icefloe


def test_a_batch_is_shown_with_phases_and_spread(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    icefloe("run", pipeline)
    workspace.update(1, 2, value=2.0)
    icefloe("run", pipeline)
    done = icefloe("show", pipeline, "--batch", 1)
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines() if line]
    assert ["update_after", "2"] in lines
    first = [line[0] for line in lines]
    assert [name for name in first if name in ("plan", "shuffle_write", "coalesce", "shuffle_read", "commit")] == [
        "plan", "shuffle_write", "coalesce", "shuffle_read", "commit",
    ]  # fmt: skip
    assert "map task bytes" in done.out
    assert "range time" in done.out


def test_the_json_is_the_report_as_it_is_kept(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    icefloe("run", pipeline)
    kept = json.loads((workspace.storage() / "checkpoints/events/reports/0.json").read_text())
    done = icefloe("show", pipeline, "--json")
    assert done.document == kept
    assert len(done.out.splitlines()) == 1


def test_an_open_batch_shows_how_it_began(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    killed("after", 1, "*/shuffle/events/*/0/plan.json", pipeline)
    document = icefloe("show", pipeline, "--json").document
    assert (document["batch_number"], document["is_open"]) == (0, True)
    assert document["opened_at"] in icefloe("show", pipeline).out


def test_a_batch_that_never_was_is_a_wrong_call(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    done = icefloe("show", pipeline)
    assert (done.code, done.sentence.endswith("has no batch yet; run the pipeline first")) == (2, True)
    icefloe("run", pipeline)
    done = icefloe("show", pipeline, "--batch", 7)
    assert (done.code, "has no batch 7: it has batches 0 to 0" in done.sentence) == (2, True)


def test_a_batch_of_a_backfill_is_found_by_the_backfills_id(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    icefloe("run", pipeline, "--up-to-snapshot-id", workspace.head())
    [backfill] = (workspace.storage() / "checkpoints/events/backfills").iterdir()
    document = icefloe("show", pipeline, "--backfill", backfill.name, "--json").document
    assert (document["backfill_id"], document["counts"]["insert"]) == (backfill.name, 10)
