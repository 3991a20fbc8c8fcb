"""Tables that no release reads yet: every command says so in one sentence before it reads or writes anything."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.pipelines.workspace import Workspace, icefloe

COMMANDS = ("validate", "plan", "run")


def edit_metadata(workspace: Workspace, edit: Any) -> None:
    path = Path(workspace.table.refresh().metadata_location.removeprefix("file://"))
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))


def with_type(kind: Any) -> Any:
    """An edit that gives the third column another type."""

    def edit(document: dict[str, Any]) -> None:
        for schema in document["schemas"]:
            schema["fields"][2]["type"] = kind

    return edit


VARIANTS = {"type": "list", "element-id": 9, "element-required": False, "element": "variant"}
UNREADABLE = [
    (with_type("variant"), "column 3 of its schema has the type variant"),
    (with_type(VARIANTS), "column 3 of its schema has the type variant or contains it"),
    (with_type("geometry"), "column 'word' has type geometry"),
    (with_type("geography"), "column 'word' has type geography"),
    (lambda document: document["properties"].update({"encryption.key-id": "k"}), "table db.events is encrypted"),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("edit", "sentence"), UNREADABLE, ids=[sentence for _, sentence in UNREADABLE])
def test_a_table_that_cannot_be_read_is_refused_in_one_sentence(
    workspace: Workspace, command: str, edit: Any, sentence: str
) -> None:
    edit_metadata(workspace, edit)
    before = {path for path in workspace.files() if path.is_file()}
    done = icefloe(command, workspace.folder / "events.yaml")
    assert done.code == 65
    said = [line for line in (done.out if command == "validate" else done.err).splitlines() if sentence in line]
    assert len(said) == 1, done.out + done.err
    assert "which this release cannot read: " in said[0]
    assert {path for path in workspace.files() if path.is_file()} == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_nanosecond_default_that_pyiceberg_does_not_load_is_one_sentence(workspace: Workspace, command: str) -> None:
    def edit(document: dict[str, Any]) -> None:
        field = document["schemas"][0]["fields"][2]
        field.update({"type": "timestamp_ns", "initial-default": "2024-01-01T00:00:00.123456789"})

    edit_metadata(workspace, edit)
    done = icefloe(command, workspace.folder / "events.yaml")
    assert done.code == 65
    said = [line for line in (done.out + done.err).splitlines() if "cannot load table db.events" in line]
    assert len(said) == 1, done.out + done.err
    assert "timestamp_ns" in said[0]
