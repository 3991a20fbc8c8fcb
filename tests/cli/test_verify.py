import pyarrow.parquet as pq
import pytest

from support.pipelines.workspace import Workspace, icefloe


def test_batches_that_lead_to_the_end_state_are_equal(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    icefloe("run", pipeline)
    workspace.update(1, 2, value=2.0)
    workspace.delete(3)
    icefloe("run", pipeline)
    before = workspace.files()
    done = icefloe("verify", pipeline)
    assert (done.code, done.err) == (0, "")
    assert "2 batches lead to exactly the 9 rows of db.events" in done.out
    assert workspace.files() == before
    as_json = icefloe("verify", pipeline, "--json")
    assert len(as_json.out.splitlines()) == 1
    assert as_json.document == {
        "pipeline": "events", "table": "db.events", "is_equal": True, "batches": 2, "changes": 15, "rows": 9,
    }  # fmt: skip


@pytest.mark.parametrize(("is_gone", "sentence"), [(False, "1 rows are missing or too many"), (True, "")])
def test_a_part_that_lost_rows_exits_65(workspace: Workspace, is_gone: bool, sentence: str) -> None:
    icefloe("run", workspace.folder / "events.yaml")
    [part] = (workspace.output() / "batch=0").glob("part-*")
    if is_gone:
        part.unlink()
    else:
        pq.write_table(pq.read_table(part).slice(1), part)
    done = icefloe("verify", workspace.folder / "events.yaml")
    assert done.code == 65
    assert part.name in done.err
    assert sentence in done.err


def test_a_cursor_placed_at_a_full_table_is_nothing_to_verify(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(initial_load="from_now")
    never = icefloe("verify", pipeline)
    assert (never.code, "events: there is nothing delivered to replay yet" in never.out) == (0, True)
    icefloe("run", pipeline)
    assert "events: there is nothing delivered to replay yet" in icefloe("verify", pipeline).out
    workspace.append(10)
    icefloe("run", pipeline)
    assert "1 changes of 1 batches lead to exactly the 11 rows of db.events" in icefloe("verify", pipeline).out
