from cli.test_kill import killed
from support.pipelines.workspace import Workspace, icefloe


def test_before_the_first_batch_there_are_none(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    assert icefloe("batches", pipeline).out == "events: no batch yet\n"
    assert icefloe("batches", pipeline, "--json").document == {"pipeline": "events", "backfill_id": None, "batches": []}


def test_batches_come_newest_first(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    icefloe("run", pipeline)
    workspace.update(1, 2, value=2.0)
    icefloe("run", pipeline)
    done = icefloe("batches", pipeline, "--json")
    newest, oldest = done.document["batches"]
    assert (newest["batch"], newest["route"], newest["update_after"]) == (1, "shuffle", 2)
    assert (oldest["batch"], oldest["route"], oldest["insert"]) == (0, "insert_only", 10)
    assert newest["seconds"] > 0
    assert len(done.out.splitlines()) == 1
    header, *rows = icefloe("batches", pipeline).out.splitlines()
    assert header.split()[:3] == ["batch", "state", "at"]
    assert [row.split()[:2] for row in rows] == [["1", "committed"], ["0", "committed"]]


def test_a_limit_leaves_out_older_batches(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    for number in range(3):
        icefloe("run", pipeline)
        workspace.append(100 + number)
    found = icefloe("batches", pipeline, "--limit", 2, "--json").document["batches"]
    assert [batch["batch"] for batch in found] == [2, 1]
    assert icefloe("batches", pipeline, "--limit", 0).code == 2


def test_an_open_batch_is_on_top(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    killed("after", 1, "*/shuffle/events/*/0/plan.json", pipeline)
    [batch] = icefloe("batches", pipeline, "--json").document["batches"]
    assert (batch["batch"], batch["state"], batch["route"]) == (0, "open", None)
    assert "open" in icefloe("batches", pipeline).out


def test_the_table_is_not_needed(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    icefloe("run", pipeline)
    workspace.table.catalog.drop_table("db.events")
    assert len(icefloe("batches", pipeline, "--json").document["batches"]) == 1
    assert icefloe("show", pipeline, "--json").document["batch_number"] == 0
