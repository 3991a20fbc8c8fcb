"""Tables that no release reads yet: every command says so in one sentence before it reads or writes anything."""

import json
from typing import Any

import pytest

from support.pipelines.workspace import Workspace, icefloe


def with_field(**edit: Any) -> Any:
    """An edit of the third column."""

    def change(document: dict[str, Any]) -> None:
        for schema in document["schemas"]:
            schema["fields"][2].update(edit)

    return change


VARIANTS = {"type": "list", "element-id": 9, "element-required": False, "element": "variant"}
NANOS = {"type": "timestamp_ns", "initial-default": "2024-01-01T00:00:00.123456789"}
NEVER = "which this release cannot read: "
UNREADABLE = {
    "variant": (with_field(type="variant"), "cannot load table db.events", "variant"),
    "list of variants": (with_field(type=VARIANTS), "cannot load table db.events", "variant"),
    "geometry": (with_field(type="geometry"), "column 'word' has type geometry", NEVER),
    "geography": (with_field(type="geography"), "column 'word' has type geography", NEVER),
    "encrypted": (lambda found: found["properties"].update({"encryption.key-id": "k"}), "events is encrypted", NEVER),
    "a default of PyIceberg's": (with_field(**NANOS), "the metadata file of table db.events", "timestamp_ns"),
}


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
@pytest.mark.parametrize(("edit", "sentence", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_table_that_cannot_be_read_is_refused_in_one_sentence(
    workspace: Workspace, command: str, edit: Any, sentence: str, reason: str
) -> None:
    document = workspace.metadata()
    edit(document)
    workspace.metadata_file.write_text(json.dumps(document))
    before = {path for path in workspace.files() if path.is_file()}
    done = icefloe(command, workspace.folder / "events.yaml")
    assert done.code == 65
    [said] = [line for line in (done.out if command == "validate" else done.err).splitlines() if sentence in line]
    assert reason in said
    assert {path for path in workspace.files() if path.is_file()} == before
