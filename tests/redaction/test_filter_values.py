"""A filter's values may come from the environment: whatever goes wrong, only their names leave the process."""

from pathlib import Path

import pytest
from pyiceberg.types import LongType

from redaction.outlets import Outlets, add_files, run
from redaction.traces import traces_of
from redaction.wrong_configurations import Case
from support.pipelines.workspace import Workspace, icefloe

SECRET = "tenant-4711-of-berlin"
CASE = Case(name="filter", environ={"TENANT": SECRET})
"""A word that no rule of redaction takes for a secret."""
COMMANDS = (["validate"], ["validate", "--json"], ["plan"], ["plan", "--json"], ["run", "--verbose"], ["status"])


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("TENANT", SECRET)
    monkeypatch.setenv("QUOTED", f"o'{SECRET}")
    made = Workspace.create(tmp_path)
    made.append(1, 2, 3)
    return made


def retype(workspace: Workspace) -> None:
    """A writer gives the filter's column another type."""
    with workspace.table.refresh().update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("word")
    with workspace.table.update_schema() as update:
        update.add_column("word", LongType())
    workspace.table.delete("id = 1")


def test_no_command_gives_the_value_away(workspace: Workspace) -> None:
    outlets = Outlets()
    path = workspace.pipeline(filter="word != '${TENANT}'")
    assert [run(outlets, command[0], str(path), *command[1:]) for command in COMMANDS] == [0] * len(COMMANDS)
    retype(workspace)
    codes = [run(outlets, command[0], str(path), *command[1:]) for command in COMMANDS]
    add_files(outlets, workspace)
    assert outlets.giving_away(CASE) == {}
    assert codes == [65, 65, 65, 65, 65, 0]
    assert (
        "column 'word' of table db.events, of type long, with a value made of ${TENANT}" in outlets.texts["run stderr"]
    )


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("word like '%${TENANT}'", "filter \"word like '%${TENANT}'\" has a pattern"),
        ("word = ${TENANT} and id > 1", "filter 'word = ${TENANT} and id > 1' cannot be read as"),
        ("id > 1 and word = '${QUOTED}' or", "filter \"id > 1 and word = '${QUOTED}' or\" cannot be read as"),
        ("id = '${TENANT}'", "of type long, with a value made of ${TENANT}: write a value such as 7"),
        ("id like 'of ${TENANT}%'", "of type long, with a value made of ${TENANT}: like compares text only"),
        ('"${TENANT}" = 1', "filter names a column made of ${TENANT}, which table db.events does not have"),
    ],
)
def test_an_error_says_which_variable_is_wrong(workspace: Workspace, written: str, sentence: str) -> None:
    done = icefloe("validate", workspace.pipeline(filter=written))
    assert sentence in done.out
    assert traces_of(SECRET, done.out + done.err) == []
