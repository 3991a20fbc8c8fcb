from pathlib import Path

import pytest

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.pyiceberg_configuration import read_configuration
from support.pipelines.workspace import Workspace, icefloe_process, python

SECRET = "xhq8v2-Lk7TnWz3RbYd5"
WRONG = {
    "a line without a colon": (f"catalog:\n  lab:\n    token {SECRET}\n    uri: x\n".encode(), "line 4: not the YAML"),
    "an indentation": (f"catalog:\n lab:\n    uri: x\n   token: {SECRET}\n".encode(), "line 4: not the YAML"),
    "a key twice": (f"catalog:\n  lab:\n    token: {SECRET}\n    token: {SECRET}\n".encode(), "line 4: not the YAML"),
    "a flow mapping": (f"catalog: {{lab: {{token: {SECRET}}}}}\n".encode(), "line 1: not the YAML"),
    "a list": (f"- token: {SECRET}\n".encode(), "it holds no mapping"),
    "a text": (f"{SECRET}\n".encode(), "it holds no mapping"),
    "Latin-1": (f"catalog:\n  lab:\n    token: {SECRET}\xe9\n".encode("latin-1"), "it is not UTF-8"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_one_sentence_and_no_cause_is_left_that_quotes_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, reason = WRONG[name]
    (tmp_path / ".pyiceberg.yaml").write_bytes(data)
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with pytest.raises(TerminalError, match=f"{tmp_path}/.pyiceberg.yaml cannot be read: {reason}") as caught:
        read_configuration()
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert SECRET not in str(caught.value)


def test_a_variable_that_contradicts_another_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAB", SECRET)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAB__TOKEN", SECRET)
    with pytest.raises(TerminalError, match="PyIceberg's configuration contradicts itself") as caught:
        read_configuration()
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert SECRET not in str(caught.value)


# PyIceberg reads the file as it is imported, so each of these needs a process that has not imported it.
@pytest.mark.parametrize(
    ("command", "text", "word"),
    [
        ("run", f"catalog:\n lab:\n    uri: x\n   token: {SECRET}\n", "line 4"),
        ("validate", f"catalog:\n lab:\n    uri: x\n   token: {SECRET}\n", "line 4"),
        ("run", f"catalog: {SECRET}\n", "object"),
        ("validate", f"catalog:\n  lab: {SECRET}\n", "object"),
    ],
    ids=["run", "validate", "a catalog that is a text", "a table of catalogs that is a text"],
)
@pytest.mark.slow
def test_no_command_says_a_word_of_a_wrong_file(command: str, text: str, word: str, tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(text)
    pipeline = Workspace.create(tmp_path).pipeline(catalog="lab")
    done = icefloe_process(command, pipeline, HOME=str(tmp_path), PYICEBERG_HOME=str(tmp_path))
    assert done.code == 65, done.err
    assert SECRET not in done.out + done.err
    assert "Traceback" not in done.err
    assert word in done.out + done.err


TASKS = """
import sys
from pathlib import Path
import airflow_environment
from support.pipelines.pipeline_files import pipeline_from
from icefloe.orchestration.tasks.failures import airflow_failures
from icefloe.orchestration.tasks.snapshot_sensor import TableSnapshotSensor
pipeline = pipeline_from(Path(sys.argv[1]))
def plan():
    with airflow_failures("plan", pipeline):
        from icefloe.orchestration.tasks.calls import plan_batch
        plan_batch(pipeline, None)
def trigger():
    import icefloe.orchestration.tasks.snapshot_trigger
sensor = TableSnapshotSensor(task_id="wait", pipeline=pipeline, waits=True)
for call in (plan, trigger, lambda: sensor.execute({})):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.slow
def test_a_wrong_file_fails_tasks_for_good_and_keeps_the_trigger_from_quoting_it(tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n lab:\n    uri: x\n   token: {SECRET}\n")
    done = python(["-c", TASKS, str(tmp_path)], HOME=str(tmp_path), PYICEBERG_HOME=str(tmp_path))
    kinds = [line.split()[0] for line in done.out.splitlines() if line.startswith(("AirflowFail", "TerminalError"))]
    assert kinds == ["AirflowFailException", "TerminalError", "AirflowFailException"], done.out + done.err
    assert SECRET not in done.out + done.err
