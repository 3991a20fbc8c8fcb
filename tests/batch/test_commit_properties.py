"""`commit_properties` says beside each change what the summary of its snapshot says."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import In

from support.pipelines.workspace import Workspace, icefloe
from support.tables.events import rows

WANTED = ["who", "operation", "engine-name"]


@pytest.fixture
def lab(tmp_path: Path) -> Workspace:
    lab = Workspace.create(tmp_path)
    lab.table.append(rows([1, 2]), snapshot_properties={"who": "ann", "why": "load"})
    run(lab)
    return lab


def run(lab: Workspace, **keys: Any) -> None:
    done = icefloe("run", lab.pipeline(commit_properties=WANTED, **keys))
    assert (done.code, done.err) == (0, "")


def change_as(lab: Workspace, who: str | None, *ids: int, value: float) -> None:
    properties = {} if who is None else {"who": who}
    condition = In(term="id", literals=ids)
    lab.table.refresh().overwrite(rows(ids, value), overwrite_filter=condition, snapshot_properties=properties)


def said(lab: Workspace, batch: int) -> list[tuple[str, int, dict[str, str]]]:
    """The properties of each change of a batch."""
    found = [row for part in lab.delivered(batch).values() for row in part]
    return sorted((row["_change_type"], row["id"], dict(row["_commit_properties"])) for row in found)


def test_changes_of_both_routes_say_who_committed_them(lab: Workspace) -> None:
    ann, bob = ({"who": who, "operation": "overwrite"} for who in ("ann", "bob"))
    change_as(lab, "bob", 1, value=2.0)
    run(lab)
    by_ann = {"who": "ann", "operation": "append"}
    assert said(lab, 0) == [("INSERT", 1, by_ann), ("INSERT", 2, by_ann)]
    found = said(lab, 1)
    assert [(kind, row) for kind, row, _ in found] == [("UPDATE_AFTER", 1), ("UPDATE_BEFORE", 1)]
    assert {properties["who"] for *_, properties in found} == {bob["who"]} != {ann["who"]}


def test_a_summary_that_says_nothing_gives_an_empty_map(lab: Workspace) -> None:
    change_as(lab, None, 1, value=2.0)
    run(lab)
    assert all(set(properties) == {"operation"} for *_, properties in said(lab, 1))


def test_changes_have_no_such_column_unless_somebody_asks(lab: Workspace) -> None:
    change_as(lab, "bob", 1, value=2.0)
    assert icefloe("run", lab.pipeline()).code == 0
    assert all("_commit_properties" not in row for part in lab.delivered(1).values() for row in part)
    assert icefloe("verify", lab.pipeline()).code == 0


def test_trace_shows_them_of_files_of_lost_files_and_before_delivery(lab: Workspace) -> None:
    change_as(lab, "bob", 1, value=2.0)
    run(lab)
    shutil.rmtree(lab.output() / "batch=1")
    change_as(lab, "eve", 1, value=3.0)
    traced = icefloe("trace", lab.pipeline(commit_properties=WANTED), "id=1", "--json").document
    found = [(each["batch"], each["commit_properties"]["who"]) for each in [*traced["changes"], *traced["pending"]]]
    assert found == [(0, "ann"), (1, "bob"), (1, "bob"), (None, "eve"), (None, "eve")]
    shown = icefloe("trace", lab.pipeline(commit_properties=WANTED), "id=1")
    assert '"who": "eve"' in shown.out


def test_a_check_may_ask_who_it_was(lab: Workspace) -> None:
    change_as(lab, "bob", 1, value=2.0)
    query = "SELECT * FROM changes WHERE _commit_properties['who'] <> 'ann'"
    path = lab.pipeline(commit_properties=WANTED, checks=[{"name": "ann_alone", "query": query}])
    assert icefloe("validate", path).code == 0
    stopped = icefloe("run", path)
    assert (stopped.code, "ann_alone" in stopped.err) == (65, True)


ASKING = {"checks": [{"name": "no_eve", "query": "SELECT * FROM changes WHERE _commit_properties['who'] = 'eve'"}]}


def test_a_check_may_ask_where_a_batch_has_no_steps(lab: Workspace) -> None:
    done = icefloe(
        "run", lab.pipeline("late", name="late", initial_load="from_now", commit_properties=WANTED, **ASKING)
    )
    assert (done.code, done.err) == (0, "")


def test_a_check_may_ask_where_a_batch_was_opened_before(lab: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.append(7)
    with monkeypatch.context() as patched:
        patched.setattr("icefloe.engines.phase_runner.commit_batch", lambda *_, **__: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            icefloe("run", lab.pipeline())
    run(lab, **ASKING)


def test_a_changelog_table_gets_the_column_when_it_is_asked_for(tmp_path: Path) -> None:
    lab = Workspace.create(tmp_path)
    lab.table.catalog.create_namespace("changes")
    sink = {"type": "iceberg", "table": "changes.events", "mode": "changelog"}
    lab.append(1)
    assert icefloe("run", lab.pipeline(sink=sink)).code == 0
    change_as(lab, "bob", 1, value=2.0)
    run(lab, sink=sink)
    lab.append(5)
    assert icefloe("run", lab.pipeline(sink=sink)).code == 0
    table = lab.table.catalog.load_table("changes.events").scan().to_arrow().sort_by("_batch").to_pylist()
    given = [row["_commit_properties"] and dict(row["_commit_properties"]).get("who") for row in table]
    assert given == [None, "bob", "bob", None]
    assert icefloe("verify", lab.pipeline(sink=sink)).code == 0
