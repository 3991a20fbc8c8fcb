"""``pin: true`` with a REST catalog that really refuses to set branches, or tags."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("forbids", [no_refs, no_tags, no_commits])
def test_validate_names_the_missing_right_before_the_first_run(workspace: Workspace, forbids: Forbids) -> None:
    before = commits(workspace)
    with guarded(workspace, forbids) as pipeline:
        checked = icefloe("validate", pipeline)
    assert checked.code == 65
    assert "pin: true needs the right to commit to table db.events" in checked.out
    assert commits(workspace) == before


def test_a_catalog_that_takes_no_commits_at_all_is_named(workspace: Workspace) -> None:
    with guarded(workspace, no_commits, can_commit=False) as pipeline:
        for command in ("run", "validate"):
            done = icefloe(command, pipeline)
            assert done.code == 65
            assert "pin: true needs the right to commit to table db.events" in done.out + done.err


def test_validate_tries_the_right_and_changes_nothing(workspace: Workspace) -> None:
    before = commits(workspace)
    with guarded(workspace, lambda _: False) as pipeline:
        checked = icefloe("validate", pipeline)
    assert checked.code == 0
    assert "branches and tags of db.events may be set" in checked.out
    assert (refs(workspace), commits(workspace)) == ({"main"}, before)


def test_validate_says_if_only_the_first_run_can_know(workspace: Workspace) -> None:
    checked = icefloe("validate", free(workspace))
    assert checked.code == 0
    assert "whether catalog 'lab' lets icefloe set branches and tags shows at the first run" in checked.out


def test_pins_that_may_not_be_dropped_are_named(workspace: Workspace) -> None:
    assert icefloe("run", free(workspace)).code == 0
    with guarded(workspace, no_commits) as pipeline:
        done = icefloe("unpin", pipeline, "--yes")
    assert done.code == 65
    assert "needs the right to commit to table db.events" in done.err
    assert len(refs(workspace)) == 3
