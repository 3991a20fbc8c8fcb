from pathlib import Path

import pytest

from icefloe.units import time_of_ms
from support.pipelines.workspace import Workspace, icefloe


@pytest.fixture
def pipeline(workspace: Workspace) -> Path:
    """A pipeline with pins, a batch behind its table."""
    path = workspace.pipeline(pin=True)
    assert icefloe("run", path).code == 0
    workspace.append(20)
    assert icefloe("run", path).code == 0
    return path


def refs(workspace: Workspace) -> set[str]:
    return set(workspace.table.refresh().metadata.refs)


def test_status_says_how_much_is_pinned(workspace: Workspace, pipeline: Path) -> None:
    head = workspace.head()
    workspace.append(30)
    document = icefloe("status", pipeline, "--json").document
    assert (document["pinned_snapshots"], document["pinned_up_to_snapshot_id"]) == (2, str(head))
    [branch] = [name for name in refs(workspace) if name.count("_") == 2]
    assert document["pin_branch"] == branch
    oldest = min(snapshot.timestamp_ms for snapshot in workspace.table.metadata.snapshots)
    assert document["oldest_pinned_at"] == time_of_ms(oldest)
    assert "pinned snapshots" in icefloe("status", pipeline).out
    icefloe("unpin", pipeline, "--yes")
    bare = icefloe("status", pipeline, "--json").document
    assert (bare["pin_branch"], bare["oldest_pinned_at"]) == (None, None)


def test_pins_are_dropped_after_a_question_in_one_commit(workspace: Workspace, pipeline: Path) -> None:
    before = refs(workspace)
    dry = icefloe("unpin", pipeline, "--dry-run")
    assert (dry.code, refs(workspace)) == (0, before)
    assert "would drop 2 tags and a branch of events in table db.events" in dry.out
    asked = icefloe("unpin", pipeline)
    assert (asked.code, refs(workspace)) == (2, before)
    commits = len(workspace.table.refresh().metadata.metadata_log)
    done = icefloe("unpin", pipeline, "--yes", "--json")
    assert (done.code, done.document["is_dropped"], done.document["pinned_snapshots"]) == (0, True, 2)
    assert refs(workspace) == {"main"}
    assert len(workspace.table.refresh().metadata.metadata_log) == commits + 1
    assert icefloe("status", pipeline, "--json").document["pinned_snapshots"] == 0


def test_dropping_twice_changes_nothing(workspace: Workspace, pipeline: Path) -> None:
    icefloe("unpin", pipeline, "--yes")
    again = icefloe("unpin", pipeline, "--yes", "--json")
    assert (again.code, again.document["is_dropped"]) == (0, False)
    assert "has pin: true, so its next run pins again" not in again.out


def test_a_pipeline_that_still_asks_for_pins_is_named(pipeline: Path) -> None:
    assert "has pin: true, so its next run pins again" in icefloe("unpin", pipeline, "--dry-run").out
