"""A run that is stopped anywhere, while others go on, delivers nothing twice and leaves nothing behind."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.pipelines.workspace import Workspace, icefloe, python
from support.tiers import extended

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EVERY_PLACE = os.environ.get("ICEFLOE_EVERY_PLACE") == "1"
"""Whether each place is tried, instead of one of so many."""
PLANS = [("load", 6), ("changes", 21)]
PLANS_OF_A_RELEASE = [("load", 1), ("parts", 7), ("changes", 7), ("reload", 9)]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A table of a few files."""
    made = Workspace.create(tmp_path)
    for start in range(0, 40, 10):
        made.append(*range(start, start + 10))
    return made


def state(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter((row["id"], row["value"], row["word"]) for row in rows)


def replayed(workspace: Workspace, stem: str) -> Counter[tuple[Any, ...]]:
    """The rows that a consumer holds who applies all batches; a reload drops what came before."""
    held: Counter[tuple[Any, ...]] = Counter()
    numbers = sorted(int(path.name.partition("=")[2]) for path in workspace.output(stem).glob("batch=*"))
    for number in numbers:
        offset = json.loads(next(workspace.storage(stem).glob(f"checkpoints/*/offsets/{number}.json")).read_text())
        if offset["spec"]["is_reload"]:
            held.clear()
        for rows in workspace.delivered(number, stem).values():
            for row in rows:
                held[row["id"], row["value"], row["word"]] += 1 if "INSERT" in row["_change_type"] else 0
                held[row["id"], row["value"], row["word"]] += 1 if row["_change_type"] == "UPDATE_AFTER" else 0
                held[row["id"], row["value"], row["word"]] -= row["_change_type"] in ("DELETE", "UPDATE_BEFORE")
    return Counter({row: count for row, count in held.items() if count})


def stopped(workspace: Workspace, scenario: str, step: int, places: str = "plan") -> list[dict[str, Any]]:
    every = 1 if EVERY_PLACE else step
    arguments = ["-m", "cli.stopped_runs", str(workspace.folder), scenario, places, "1", str(every)]
    done = python(arguments, timeout_seconds=800)
    assert done.code == 0, done.err
    found = [json.loads(line) for line in done.out.splitlines()]
    assert len(found) > 2
    for each in found:
        assert (each["others"], each["after"]) == (0, 0), (each, done.err)
        assert each["late"] in (0, 75), (each, done.err)
    return found


def require_exact(workspace: Workspace, found: list[dict[str, Any]]) -> None:
    """Sink and table are equal, `verify` agrees, and nothing is left of what passed between the phases."""
    for each in found:
        stem = each["stem"]
        while icefloe("run", workspace.folder / f"{stem}.yaml").document["batch"] is not None:
            pass
        table = workspace.table.refresh().scan().to_arrow().to_pylist()
        assert replayed(workspace, stem) == state(table), each
        assert icefloe("verify", workspace.folder / f"{stem}.yaml").code == 0
        assert not any(path.is_file() for path in (workspace.storage(stem) / "shuffle").rglob("*")), each


@pytest.mark.parametrize(("scenario", "step"), [*PLANS, *(extended(*plan) for plan in PLANS_OF_A_RELEASE)])
def test_a_plan_that_was_stopped_while_others_went_on_delivers_nothing_twice(
    workspace: Workspace, scenario: str, step: int
) -> None:
    require_exact(workspace, stopped(workspace, scenario, step))


@pytest.mark.parametrize(
    ("scenario", "step"), [("load", 10), ("changes", 18), extended("load", 5), extended("changes", 6)]
)
def test_a_task_that_was_stopped_at_a_write_leaves_nothing_after_cleanup(
    workspace: Workspace, scenario: str, step: int
) -> None:
    require_exact(workspace, stopped(workspace, scenario, step, "writes"))


@pytest.mark.parametrize("step", [10, extended(7)])
def test_a_first_run_from_now_that_was_stopped_never_moves_the_cursor_back(workspace: Workspace, step: int) -> None:
    for each in stopped(workspace, "from_now", step):
        commits = sorted(workspace.storage(each["stem"]).glob("checkpoints/*/commits/*.json"))
        ends = [json.loads(path.read_text()) for path in commits]
        assert [end["after_snapshot_id"] for end in ends][1:] == [end["up_to_snapshot_id"] for end in ends][:-1], each
        assert sum(end["after_snapshot_id"] is None for end in ends) == 1, each


@pytest.mark.parametrize("step", [12, extended(9)])
def test_a_backfill_that_was_stopped_has_one_batch(workspace: Workspace, step: int) -> None:
    for each in stopped(workspace, "backfill", step):
        batches = [path.name for path in workspace.output(each["stem"]).glob("_backfills/*/batch=*")]
        assert batches == ["batch=0"], each
        assert not any(path.is_file() for path in (workspace.storage(each["stem"]) / "shuffle").rglob("*")), each
