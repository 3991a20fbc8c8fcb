from pathlib import Path

import pytest

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.pyiceberg_configuration import read_configuration
from support.pipelines.workspace import Workspace, icefloe_process, python

SECRET = "xhq8v2-Lk7TnWz3RbYd5"
WRONG = {
    "a line without a colon": (f"catalog:\n  lab:\n    token {SECRET}\n    uri: x\n".encode(), "line"),
    "an indentation": (f"catalog:\n lab:\n    uri: x\n   token: {SECRET}\n".encode(), "line"),
    "a key twice": (f"catalog:\n  lab:\n    token: {SECRET}\n    token: {SECRET}\n".encode(), "line"),
    "a flow mapping": (f"catalog: {{lab: {{token: {SECRET}}}}}\n".encode(), "YAML"),
    "a list": (f"- token: {SECRET}\n".encode(), "mapping"),
    "a text": (f"{SECRET}\n".encode(), "mapping"),
    "Latin-1": (f"catalog:\n  lab:\n    token: {SECRET}\xe9\n".encode("latin-1"), "UTF-8"),
    "a catalog that is a text": (f"catalog: {SECRET}\n".encode(), "object"),
    "a table of catalogs that is a text": (f"catalog:\n  lab: {SECRET}\n".encode(), "object"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_one_sentence_and_not_a_word_of_it(name: str, tmp_path: Path) -> None:
    data, word = WRONG[name]
    (tmp_path / ".pyiceberg.yaml").write_bytes(data)
    pipeline = Workspace.create(tmp_path).pipeline(catalog="lab")
    for command in ("run", "validate"):
        done = icefloe_process(command, pipeline, HOME=str(tmp_path), PYICEBERG_HOME=str(tmp_path))
        assert done.code == 65, done.err
        assert SECRET not in done.out + done.err
        assert "Traceback" not in done.err
        assert word in done.out + done.err


def test_a_variable_that_contradicts_another_is_one_sentence(tmp_path: Path) -> None:
    pipeline = Workspace.create(tmp_path).pipeline(catalog="lab")
    variables = {"PYICEBERG_CATALOG__LAB": SECRET, "PYICEBERG_CATALOG__LAB__TOKEN": SECRET}
    done = icefloe_process("run", pipeline, HOME=str(tmp_path), **variables)
    assert done.code == 65
    assert SECRET not in done.out + done.err
    assert "PyIceberg's configuration contradicts itself" in done.sentence


def test_no_cause_is_left_that_quotes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n lab:\n    uri: x\n   token: {SECRET}\n")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with pytest.raises(TerminalError, match=rf"{tmp_path}/.pyiceberg.yaml cannot be read: line 4") as caught:
        read_configuration()
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


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


def test_a_wrong_file_fails_tasks_for_good_and_keeps_the_trigger_from_quoting_it(tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n lab:\n    uri: x\n   token: {SECRET}\n")
    done = python(["-c", TASKS, str(tmp_path)], HOME=str(tmp_path), PYICEBERG_HOME=str(tmp_path))
    kinds = [line.split()[0] for line in done.out.splitlines() if line.startswith(("AirflowFail", "TerminalError"))]
    assert kinds == ["AirflowFailException", "TerminalError", "AirflowFailException"], done.out + done.err
    assert SECRET not in done.out + done.err
