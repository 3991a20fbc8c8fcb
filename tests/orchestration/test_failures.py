import pytest
from airflow.sdk.exceptions import AirflowFailException

from icefloe.errors import TerminalError, TransientError
from icefloe.orchestration.failures import clear_failures


def test_what_retrying_cannot_help_fails_at_once_with_the_tasks_name() -> None:
    with pytest.raises(AirflowFailException, match=r"^plan: the column is gone$"), clear_failures("plan"):
        raise TerminalError("the column is gone")


def test_the_sentence_is_the_last_line_and_the_traceback_is_folded_above_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), pytest.raises(AirflowFailException) as failure, clear_failures("plan"):
        raise TerminalError("the column is gone")
    opened, traceback, closed, sentence = caplog.records
    assert (opened.getMessage()[:9], closed.getMessage()) == ("::group::", "::endgroup::")
    assert traceback.exc_info is not None
    assert traceback.exc_info[0] is TerminalError
    assert (sentence.levelname, sentence.getMessage()) == ("ERROR", "plan: the column is gone")
    assert sentence.exc_info is None
    assert failure.value.__suppress_context__, "Airflow would print the whole way again"


def test_an_error_that_passes_has_its_sentence_on_a_line_of_its_own_too(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TransientError), clear_failures("plan"):
        raise TransientError("the store timed out")
    assert caplog.messages == ["plan: the store timed out"]


@pytest.mark.parametrize("error", [TransientError("the store timed out"), MemoryError("too small")])
def test_everything_else_is_left_to_airflows_retries(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)), clear_failures("plan"):
        raise error
