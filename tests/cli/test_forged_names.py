"""Names that writers of a table chose, on the terminal, in logs and in documents."""

import json

import pytest

from support.fakes.answering_server import answering_server
from support.fakes.rest_server import rest_server
from support.pipelines.workspace import Outcome, Workspace, icefloe

FORGED = "a\x1b]0;owned\x07\x9b2K\nicefloe: verified: exactly the rows\r\u202e\u2028\u200b"
SHOWN = r"a\x1b]0;owned\x07\x9b2K\nicefloe: verified: exactly the rows\r\u202e\u2028\u200b"
COMMANDS = (("validate",), ("plan",), ("run", "-v"), ("run", "--json"), ("status",))


def assert_one_voice(done: Outcome, *, names: str = SHOWN) -> None:
    """Nothing that a name holds moves the cursor, turns text or begins a line."""
    printed = done.out + done.err
    assert names in printed.replace("\\\\", "\\")
    assert printed.replace("\n", "").isprintable()
    assert not [line for line in printed.splitlines() if line.startswith("icefloe: verified")]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_branch_with_control_characters(workspace: Workspace, command: tuple[str, ...]) -> None:
    metadata = workspace.metadata()
    metadata["refs"][FORGED] = metadata["refs"]["main"]
    with rest_server(metadata, workspace.table.metadata_location) as uri:
        done = icefloe(
            command[0], workspace.pipeline(catalog={"type": "rest", "uri": uri}, branch="gone"), *command[1:]
        )
    assert done.code == 65
    assert_one_voice(done)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_fault_of_a_catalog_with_control_characters(workspace: Workspace, command: tuple[str, ...]) -> None:
    body = json.dumps(
        {"error": {"message": FORGED + "x" * 10_000, "type": "BadRequestException", "code": 400}}
    ).encode()
    with answering_server(lambda _: (400, {"Content-Type": "application/json"}, body)) as (uri, _):
        done = icefloe(command[0], workspace.pipeline(catalog={"type": "rest", "uri": uri}), *command[1:])
    assert done.code in {65, 75}
    assert len(done.out + done.err) < 20_000
    assert_one_voice(done, names=r"a\x1b]0;owned\x07\x9b2K")
