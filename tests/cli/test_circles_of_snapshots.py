"""Snapshots that are their own ancestors: a side branch disturbs nobody, a followed one ends in a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from icefloe.errors import TerminalError
from icefloe.orchestration.page import page_documents
from icefloe.orchestration.tasks.calls import work_of
from icefloe.pipeline.model import Pipeline
from support.fakes.rest_server import rest_server
from support.pipelines.workspace import Workspace, icefloe

pytestmark = pytest.mark.slow

FORMS: dict[str, dict[int, int]] = {
    "itself": {90: 90},
    "a tail": {90: 91, 91: 92, 92: 93, 93: 92},
}
"""Parents by id; the branch points to the first one."""


def with_circle(workspace: Workspace, form: str, ref: str, kind: str) -> dict[str, Any]:
    """The table's metadata, in which a ref points to snapshots that form a circle."""
    metadata = json.loads(Path(workspace.table.metadata_location.removeprefix("file://")).read_bytes())
    newest = metadata["snapshots"][-1]
    metadata["snapshots"] += [
        {**newest, "snapshot-id": each, "parent-snapshot-id": parent} for each, parent in FORMS[form].items()
    ]
    metadata["refs"][ref] = {"snapshot-id": 90, "type": kind}
    if ref == "main":
        metadata["current-snapshot-id"] = 90
        metadata["snapshot-log"] += [{"snapshot-id": 90, "timestamp-ms": metadata["last-updated-ms"]}]
    return metadata


def test_a_circle_on_a_side_branch_disturbs_nobody(workspace: Workspace) -> None:
    assert icefloe("run", workspace.pipeline()).code == 0
    workspace.append(11)
    cursor = workspace.table.metadata.snapshots[0].snapshot_id
    with rest_server(with_circle(workspace, "a tail", "side", "tag"), workspace.table.metadata_location) as uri:
        pipeline = workspace.pipeline(catalog={"type": "rest", "uri": uri})
        loaded = Pipeline.load(pipeline)
        assert work_of(loaded).is_due
        assert len(page_documents._load(loaded)["snapshots"]) == 2
        assert page_documents._look(loaded, {"cursor_snapshot_id": str(cursor)})["lag_snapshots"] == 1
        for command in ("validate", "plan", "status", "run", "verify"):
            done = icefloe(command, pipeline)
            assert (command, done.code, done.err) == (command, 0, "")


@pytest.mark.parametrize("ref", ["main", "side"])
@pytest.mark.parametrize("form", FORMS)
def test_a_circle_on_the_branch_that_is_read_is_one_sentence(workspace: Workspace, form: str, ref: str) -> None:
    cursor = workspace.table.metadata.snapshots[0].snapshot_id
    if ref == "side":
        with workspace.table.manage_snapshots() as managed:
            managed.create_branch(cursor, "side")
    assert icefloe("run", workspace.pipeline(branch=ref)).code == 0
    sentence = (
        f"the metadata of table db.events is damaged: snapshot {92 if form == 'a tail' else 90} is its own ancestor"
    )
    with rest_server(with_circle(workspace, form, ref, "branch"), workspace.table.metadata_location) as uri:
        pipeline = workspace.pipeline(catalog={"type": "rest", "uri": uri}, branch=ref)
        loaded = Pipeline.load(pipeline)
        assert work_of(loaded).is_due
        with pytest.raises(TerminalError, match=sentence):
            page_documents._load(loaded)
        with pytest.raises(TerminalError, match=sentence):
            page_documents._look(loaded, {"cursor_snapshot_id": str(cursor)})
        for command in ("validate", "plan", "status", "run"):
            done = icefloe(command, pipeline)
            assert (command, done.code, sentence in done.out + done.err) == (command, 65, True), done
