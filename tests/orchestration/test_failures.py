import pytest
from airflow.sdk.exceptions import AirflowFailException

from icefloe.errors import TerminalError, TransientError
from icefloe.orchestration.failures import clear_failures


def test_what_retrying_cannot_help_fails_at_once_with_the_tasks_name_and_its_cause() -> None:
    with pytest.raises(AirflowFailException, match=r"plan: the column is gone") as failure, clear_failures("plan"):
        raise TerminalError("the column is gone")
    assert isinstance(failure.value.__cause__, TerminalError)


@pytest.mark.parametrize("error", [TransientError("the store timed out"), MemoryError("too small")])
def test_everything_else_is_left_to_airflows_retries(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)), clear_failures("plan"):
        raise error
