import re
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, AirflowTaskTimeout
from airflow.sdk.log import mask_secret

from icefloe.batch.status.pipeline_status import Trouble
from icefloe.batch.status.publish_status import load_status
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError, TransientError
from icefloe.orchestration.tasks import calls
from icefloe.orchestration.tasks.failures import LostTask, airflow_failures
from icefloe.pipeline.model import Pipeline
from icefloe.redaction.hidden import hide
from icefloe.storage.location import open_store
from support.pipelines.pipeline_files import pipeline_from


def test_a_final_error_fails_at_once_with_the_tasks_name() -> None:
    with pytest.raises(AirflowFailException, match=r"^plan: the column is gone$"), airflow_failures("plan"):
        raise TerminalError("the column is gone")


def test_the_words_of_the_last_sentence_are_ours() -> None:
    hide({"warehouse": "sales", "token": "xhq8v2-Lk7TnWz3RbYd5"})
    with (
        pytest.raises(AirflowFailException, match=r"^plan: table sales\.orders at \*\*\*$") as failure,
        airflow_failures("plan"),
    ):
        raise TerminalError("table sales.orders at xhq8v2-Lk7TnWz3RbYd5") from ValueError("xhq8v2-Lk7TnWz3RbYd5")
    assert failure.value.__cause__ is failure.value.__context__ is None


def test_the_sentence_is_the_last_line_and_the_traceback_is_folded_above_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), pytest.raises(AirflowFailException) as failure, airflow_failures("plan"):
        raise TerminalError("the column is gone")
    opened, traceback, closed, sentence = caplog.records
    assert (opened.getMessage()[:9], closed.getMessage()) == ("::group::", "::endgroup::")
    assert traceback.exc_info is not None
    assert traceback.exc_info[0] is TerminalError
    assert (sentence.levelname, sentence.getMessage()) == ("ERROR", "plan: the column is gone")
    assert sentence.exc_info is None
    assert failure.value.__suppress_context__, "Airflow would print the whole way again"


def test_an_error_that_passes_has_its_sentence_on_a_line_of_its_own_too(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TransientError), airflow_failures("plan"):
        raise TransientError("the store timed out")
    assert caplog.messages == ["plan: the store timed out"]


@pytest.mark.parametrize("error", [TransientError("the store timed out"), MemoryError("too small")])
def test_everything_else_is_left_to_airflows_retries(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)), airflow_failures("plan"):
        raise error


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return pipeline_from(tmp_path)


def told(pipeline: Pipeline) -> Trouble | None:
    status = load_status(Checkpoint(open_store(pipeline.checkpoint_url)))
    return None if status is None else status.trouble


def test_a_task_that_is_timed_out_says_so(pipeline: Pipeline) -> None:
    with pytest.raises(AirflowTaskTimeout), airflow_failures("plan", pipeline):
        raise AirflowTaskTimeout
    trouble = told(pipeline)
    assert trouble is not None
    assert "execution_timeout" in trouble.sentence


@pytest.mark.parametrize("try_number", [1, 4])
def test_a_task_that_ended_without_a_word_is_reported_by_airflows_callback(pipeline: Pipeline, try_number: int) -> None:
    task = SimpleNamespace(dag_id=pipeline.name, task_id="shuffle_read", try_number=try_number, max_tries=3)
    LostTask(pipeline)({"ti": task})
    trouble = told(pipeline)
    assert trouble is not None
    assert (trouble.phase, trouble.is_final) == ("shuffle_read", try_number == 4)
    assert trouble.sentence.startswith("shuffle_read ended without a word: it was killed, most often because memory")


def test_a_task_that_ended_without_a_word_is_reported_to_a_checkpoint_of_this_airflow(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    Checkpoint(open_store(pipeline.checkpoint_url)).claim_for(Writer(owner="this-airflow"))
    task = SimpleNamespace(dag_id=pipeline.name, task_id="plan", try_number=1, max_tries=3)
    for owner, is_told in (("another-airflow", False), ("this-airflow", True)):
        monkeypatch.setenv("AIRFLOW_VAR_ICEFLOE_OWNER", owner)
        LostTask(pipeline)({"ti": task})
        assert (told(pipeline) is not None) == is_told


@pytest.mark.parametrize("silent", ["current_writer", "resolve_credentials", "publish_trouble"])
def test_a_failure_that_cannot_be_recorded_keeps_no_task_waiting(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    waits, answers = Event(), []

    def no_answer(*_: object, **__: object) -> None:
        answers.append(waits.wait(10))

    monkeypatch.setenv("ICEFLOE_PATIENCE_SECONDS", "0.2")
    monkeypatch.setattr(calls, silent, no_answer)
    with pytest.raises(TransientError, match="the store timed out"), airflow_failures("plan", pipeline):
        raise TransientError("the store timed out")
    assert answers == []
    waits.set()


def test_an_error_that_a_task_reported_is_not_reported_again(pipeline: Pipeline) -> None:
    task = SimpleNamespace(dag_id=pipeline.name, task_id="plan", try_number=1, max_tries=3)
    LostTask(pipeline)({"ti": task, "exception": TransientError("the store timed out")})
    assert told(pipeline) is None


def test_the_pipelines_status_says_what_a_task_failed_of(pipeline: Pipeline) -> None:
    with pytest.raises(AirflowFailException), airflow_failures("plan", pipeline):
        raise TerminalError("the column is gone")
    trouble = told(pipeline)
    assert trouble is not None
    assert (trouble.sentence, trouble.phase, trouble.is_final) == ("the column is gone", "plan", True)


def test_an_error_that_airflow_retries_is_no_final_trouble(pipeline: Pipeline) -> None:
    with pytest.raises(TransientError), airflow_failures("commit", pipeline):
        raise TransientError("the store timed out")
    trouble = told(pipeline)
    assert trouble is not None
    assert (trouble.sentence, trouble.is_final) == ("the store timed out", False)


def test_only_the_kind_of_a_foreign_error_is_reported(pipeline: Pipeline) -> None:
    with pytest.raises(ValueError, match=r"^postgresql://\*\*\*@lake$"), airflow_failures("plan", pipeline):
        raise ValueError("postgresql://icefloe:s3cret@lake")
    trouble = told(pipeline)
    assert trouble is not None
    assert trouble.sentence == "plan failed with ValueError; its log says more"


def test_a_skipped_task_is_no_trouble(pipeline: Pipeline) -> None:
    with pytest.raises(AirflowSkipException), airflow_failures("commit", pipeline):
        raise AirflowSkipException("no batch")
    assert told(pipeline) is None


def test_a_status_that_cannot_be_written_hides_no_error(tmp_path: Path) -> None:
    (tmp_path / "storage").write_text("a file in the way")
    pipeline = pipeline_from(tmp_path)
    with pytest.raises(AirflowFailException, match="the column is gone"), airflow_failures("plan", pipeline):
        raise TerminalError("the column is gone")


def test_values_masked_in_airflows_logs_are_masked_in_the_status_too(pipeline: Pipeline) -> None:
    mask_secret("hunter2hunter2")
    with pytest.raises(TransientError), airflow_failures("plan", pipeline):
        raise TransientError("the lake of hunter2hunter2 did not answer")
    trouble = told(pipeline)
    assert trouble is not None
    # More than three where what other tests had masked is masked too.
    assert re.fullmatch(r"the lake of \*{3,} did not answer", trouble.sentence)
