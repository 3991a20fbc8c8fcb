import threading
from contextvars import ContextVar

import pytest

from icefloe.errors import TerminalError
from icefloe.patience import PATIENCE_VARIABLE, Patience, answer_within, has_given_up, patience_seconds


def test_what_a_call_returns_or_raises_is_handed_on() -> None:
    assert answer_within(10, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        answer_within(10, lambda: 1 / 0)
    assert not has_given_up()


def test_a_call_that_does_not_end_is_given_up_and_goes_on_by_itself() -> None:
    let_go = threading.Event()
    ended = threading.Event()

    def call() -> None:
        let_go.wait()
        ended.set()

    with pytest.raises(TimeoutError, match=r"no answer within 0\.01 seconds"):
        answer_within(0.01, call)
    assert has_given_up()
    let_go.set()
    assert ended.wait(10)


def test_a_timeout_of_the_call_itself_is_its_own() -> None:
    def call() -> None:
        raise TimeoutError("the disk took too long")

    with pytest.raises(TimeoutError, match="the disk took too long"):
        answer_within(10, call)


def test_a_call_sees_the_context_of_who_waits() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("mine")
    assert answer_within(10, variable.get) == "mine"


def test_calls_share_what_is_left_and_get_a_little_in_any_case() -> None:
    patience = Patience(seconds=60)
    assert 59 < patience.seconds_left <= 60
    used_up = Patience(seconds=60, _started=patience._started - 1_000)
    assert used_up.seconds_left == 5
    assert used_up.wait_for(lambda: "well") == "well"
    assert Patience(seconds=0.6, _started=patience._started - 1_000).seconds_left == 0.6


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan"])
def test_patience_that_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(TerminalError, match=f"{PATIENCE_VARIABLE} is '{text}', not a number of seconds above 0"):
        patience_seconds({PATIENCE_VARIABLE: text})


def test_an_empty_variable_is_the_default() -> None:
    assert patience_seconds({PATIENCE_VARIABLE: " "}) == patience_seconds({}) == 60
