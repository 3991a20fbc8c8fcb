"""A filter's values may come from the environment: whatever goes wrong, only their names leave the process."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.types import LongType

from icefloe.batch.context.task_attempt import FailedAttempt
from icefloe.errors import TerminalError
from icefloe.orchestration.tasks import calls as use_cases
from icefloe.orchestration.tasks.failures import airflow_failures
from icefloe.pipeline.model import Pipeline
from redaction.outlets import Outlets, add_files, airflow, run, told_of
from redaction.traces import traces_of
from redaction.wrong_configurations import Case
from support.pipelines.workshop import Workshop
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


def test_no_task_gives_the_value_away(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    outlets = Outlets()
    pipeline = Pipeline.load(workspace.pipeline(filter="word != '${TENANT}'"))

    def plan() -> object:
        with airflow_failures("plan", pipeline):
            return use_cases.plan_batch(pipeline, None)

    retype(workspace)
    airflow(outlets, "plan", plan, pipeline, monkeypatch)
    add_files(outlets, workspace)
    assert outlets.giving_away(CASE) == {}
    [status] = workspace.folder.rglob("status.json")
    assert "made of ${TENANT}" in json.loads(status.read_text())["trouble"]["sentence"]
    assert "made of ${TENANT}" in outlets.texts["plan xcom"]


def test_the_error_document_of_a_task_holds_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENANT", SECRET)
    workshop = Workshop.create(tmp_path)
    workshop.append(range(10))
    batch = workshop.set(filter="word != '${TENANT}'").open()
    schema = json.loads(json.dumps(batch.plan.table_schema).replace('"string"', '"long"'))
    later = replace(batch.plan, table_schema=schema)
    with pytest.raises(TerminalError) as refused:
        assert replace(batch.batch_folder, plan=later).shape
    FailedAttempt.save(batch.reference, "shuffle_write", "1", refused.value)
    outlets = Outlets()
    for path, data in workshop.stored_objects().items():
        outlets.add(path, data.decode("latin-1"))
    outlets.add("raised", told_of(refused.value))
    [error] = [text for path, text in outlets.texts.items() if "/errors/" in path]
    assert "with a value made of ${TENANT}: write a value such as 7" in error
    assert outlets.giving_away(CASE) == {}


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
