import re
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, AirflowTaskTimeout
from airflow.sdk.log import mask_secret

from icefloe.batch.status import PipelineStatus, Trouble
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError, TransientError
from icefloe.orchestration.tasks import calls
from icefloe.orchestration.tasks.failures import LostTask, airflow_failures
from icefloe.pipeline.model import Pipeline
from icefloe.redaction.hidden import hide
from icefloe.storage.location import open_store
from support.pipelines.pipeline_files import pipeline_from


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return pipeline_from(tmp_path)


def told(pipeline: Pipeline) -> Trouble | None:
    status = PipelineStatus.load(Checkpoint(open_store(pipeline.checkpoint_url)))
    return None if status is None else status.trouble


def test_the_sentence_is_the_last_line_and_the_traceback_is_folded_above_it(caplog: pytest.LogCaptureFixture) -> None:
    hide({"warehouse": "sales", "token": "xhq8v2-Lk7TnWz3RbYd5"})
    with caplog.at_level("INFO"), pytest.raises(AirflowFailException) as failure, airflow_failures("plan"):
        raise TerminalError("table sales.orders at xhq8v2-Lk7TnWz3RbYd5") from ValueError("xhq8v2-Lk7TnWz3RbYd5")
    opened, traceback, closed, sentence = caplog.records
    assert (opened.getMessage()[:9], closed.getMessage()) == ("::group::", "::endgroup::")
    assert traceback.exc_info is not None
    assert traceback.exc_info[0] is TerminalError
    assert (sentence.levelname, sentence.getMessage()) == ("ERROR", "plan: table sales.orders at ***")
    assert sentence.exc_info is None
    assert str(failure.value) == "plan: table sales.orders at ***"
    assert failure.value.__cause__ is failure.value.__context__ is None
    assert failure.value.__suppress_context__, "Airflow would print the whole way again"


@pytest.mark.parametrize(
    ("error", "raised", "sentence", "is_final"),
    [
        (TerminalError("the column is gone"), AirflowFailException, "the column is gone", True),
        (TransientError("the store timed out"), TransientError, "the store timed out", False),
        (ValueError("pg://me:s3cret@lake"), ValueError, "plan failed with ValueError; its log says more", False),
        (MemoryError("too small"), MemoryError, None, False),
        (AirflowTaskTimeout(), AirflowTaskTimeout, None, False),
        (AirflowSkipException("no batch"), AirflowSkipException, None, None),
    ],
)
def test_a_task_says_in_the_status_why_it_failed_and_leaves_the_rest_to_airflow(
    pipeline: Pipeline,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
    raised: type[BaseException],
    sentence: str | None,
    is_final: bool | None,
) -> None:
    with pytest.raises(raised) as failure, airflow_failures("plan", pipeline):
        raise error
    assert "s3cret" not in str(failure.value)
    trouble = told(pipeline)
    assert (trouble is None) == (is_final is None)
    if trouble is not None:
        assert (trouble.phase, trouble.is_final) == ("plan", is_final)
        assert sentence in (None, trouble.sentence)
        assert isinstance(error, AirflowTaskTimeout) == ("execution_timeout" in trouble.sentence)
    assert not isinstance(error, TransientError) or caplog.messages == ["plan: the store timed out"]


@pytest.mark.parametrize("try_number", [1, 4])
@pytest.mark.parametrize(("dag_id", "group"), [("flights", ""), ("own", "late.flights.")])
def test_a_task_that_ended_without_a_word_is_reported_by_airflows_callback(
    pipeline: Pipeline, try_number: int, dag_id: str, group: str
) -> None:
    task = SimpleNamespace(dag_id=dag_id, task_id=f"{group}shuffle_read", try_number=try_number, max_tries=3)
    LostTask(pipeline)({"ti": task, "exception": TransientError("it reported this itself")})
    assert told(pipeline) is None
    LostTask(pipeline)({"ti": task})
    trouble = told(pipeline)
    assert trouble is not None
    assert (trouble.phase, trouble.is_final) == ("shuffle_read", try_number == 4)
    assert trouble.sentence.startswith("shuffle_read ended without a word: it was killed, most often because memory")


def test_a_lost_task_of_a_backfill_is_no_trouble_of_the_pipeline(pipeline: Pipeline) -> None:
    task = SimpleNamespace(dag_id=f"{pipeline.name}__backfill", task_id="plan", try_number=1, max_tries=3)
    LostTask(pipeline)({"ti": task})
    assert told(pipeline) is None


def test_a_task_that_ended_without_a_word_is_reported_to_a_checkpoint_of_this_airflow(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    Checkpoint(open_store(pipeline.checkpoint_url)).claim_for(Writer(owner="this-airflow"))
    task = SimpleNamespace(dag_id=pipeline.name, task_id="plan", try_number=1, max_tries=3)
    for owner, is_told in (("another-airflow", False), ("this-airflow", True)):
        monkeypatch.setenv("AIRFLOW_VAR_ICEFLOE_OWNER", owner)
        LostTask(pipeline)({"ti": task})
        assert (told(pipeline) is not None) == is_told


@pytest.mark.parametrize("silent", ["current_writer", "resolve_credentials"])
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
    # More than three where what other tests had masked is masked too.
    assert re.fullmatch(r"the lake of \*{3,} did not answer", trouble.sentence if trouble else "")
