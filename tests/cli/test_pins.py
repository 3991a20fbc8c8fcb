"""``pin: true``, also with a REST catalog that really refuses to set branches, or tags; and ``icefloe unpin``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from icefloe.units import time_of_ms
from support.catalogs import sql_properties
from support.fakes.guarding_catalog import Forbids, guarding_catalog, no_commits, no_refs, no_tags
from support.pipelines.workspace import Workspace, icefloe


@contextmanager
def guarded(workspace: Workspace, forbids: Forbids, *, can_commit: bool = True) -> Iterator[Path]:
    """A pipeline with pins over a catalog that forbids some commits."""
    with guarding_catalog(workspace.folder, forbids, can_commit=can_commit) as uri:
        yield workspace.pipeline(catalog={"name": "lab", "type": "rest", "uri": uri}, pin=True)


def free(workspace: Workspace) -> Path:
    return workspace.pipeline(catalog={"name": "lab", **sql_properties(workspace.folder)}, pin=True)


def refs(workspace: Workspace) -> set[str]:
    return set(workspace.table.refresh().metadata.refs)


def commits(workspace: Workspace) -> int:
    return len(workspace.table.refresh().metadata.metadata_log)


@pytest.mark.parametrize("forbids", [no_refs, no_tags, no_commits])
def test_a_missing_right_is_named_and_the_batch_goes_on_once_it_is_there(
    workspace: Workspace, forbids: Forbids
) -> None:
    before, forbidden = commits(workspace), [forbids]
    with guarded(workspace, lambda update: any(each(update) for each in forbidden)) as pipeline:
        run = icefloe("run", pipeline)
        assert run.code == 65
        assert "cannot set branches and tags of table db.events (ForbiddenError: " in run.err
        assert "pin: true needs the right to commit to table db.events: to update it in catalog 'lab'" in run.err
        assert "grant it, or remove pin" in run.err
        assert (refs(workspace), commits(workspace)) == ({"main"}, before)
        assert not workspace.output().joinpath("batch=0").exists()
        forbidden.clear()
        again = icefloe("run", pipeline)
    assert (again.code, again.document["batch"], again.document["insert"]) == (0, 0, 10)
    assert len(refs(workspace)) == 3


def test_without_pin_the_batch_that_was_refused_goes_on(workspace: Workspace) -> None:
    with guarded(workspace, no_commits) as pipeline:
        assert icefloe("run", pipeline).code == 65
        pipeline.write_text(pipeline.read_text().replace("pin: true", "pin: false"))
        assert icefloe("run", pipeline).document["insert"] == 10


def test_a_catalog_that_takes_no_commits_at_all_is_named(workspace: Workspace) -> None:
    with guarded(workspace, no_commits, can_commit=False) as pipeline:
        done = icefloe("run", pipeline)
    assert done.code == 65
    assert "pin: true needs the right to commit to table db.events" in done.err


def test_pins_that_may_not_be_dropped_are_named(workspace: Workspace) -> None:
    assert icefloe("run", free(workspace)).code == 0
    with guarded(workspace, no_commits) as pipeline:
        done = icefloe("unpin", pipeline, "--yes")
    assert done.code == 65
    assert "needs the right to commit to table db.events" in done.err
    assert len(refs(workspace)) == 3


def test_pins_are_in_the_status_until_they_are_dropped_in_one_commit_after_a_question(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(pin=True)
    icefloe("run", pipeline)
    workspace.append(20)
    icefloe("run", pipeline)
    head = workspace.head()
    workspace.append(30)
    document = icefloe("status", pipeline, "--json").document
    pins = document["pins"]
    assert (pins["snapshots"], pins["up_to_snapshot_id"]) == (2, str(head))
    before = refs(workspace)
    [branch] = [name for name in before if name.count("_") == 2]
    oldest = min(snapshot.timestamp_ms for snapshot in workspace.table.metadata.snapshots)
    assert (pins["branch"], pins["oldest_at"]) == (branch, time_of_ms(oldest))
    assert "pins snapshots" in icefloe("status", pipeline).out
    dry = icefloe("unpin", pipeline, "--dry-run")
    assert (dry.code, refs(workspace)) == (0, before)
    assert "would drop 2 tags and a branch of events in table db.events" in dry.out
    assert "has pin: true, so its next run pins again" in dry.out
    asked = icefloe("unpin", pipeline)
    assert (asked.code, refs(workspace)) == (2, before)
    made = commits(workspace)
    done = icefloe("unpin", pipeline, "--yes", "--json")
    assert (done.code, done.document["is_dropped"], done.document["pinned_snapshots"]) == (0, True, 2)
    assert (refs(workspace), commits(workspace)) == ({"main"}, made + 1)
    bare = icefloe("status", pipeline, "--json").document
    assert "pins" not in bare
    again = icefloe("unpin", pipeline, "--yes", "--json")
    assert (again.code, again.document["is_dropped"]) == (0, False)
