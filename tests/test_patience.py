import threading
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from icefloe import patience
from icefloe.errors import TerminalError
from icefloe.patience import PATIENCE_VARIABLE, Patience, answer_within, has_given_up, patience_seconds


def test_the_result_or_error_of_a_call_is_handed_on() -> None:
    assert answer_within(10, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        answer_within(10, lambda: 1 / 0)
    assert not has_given_up()


@pytest.mark.timeout(30)
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


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    let_go = threading.Event()
    yield let_go
    let_go.set()
    for thread in threading.enumerate():
        if thread.name.startswith(patience._THREAD_NAME):
            thread.join(10)
    patience._unanswered.clear()


def give_up(stuck: threading.Event, place: str, number: int) -> None:
    for _ in range(number):
        with pytest.raises(TimeoutError, match="no answer"):
            answer_within(0.01, stuck.wait, place=place)


def test_a_place_with_several_unanswered_calls_is_asked_again_only_when_one_of_them_has_ended(stuck) -> None:
    give_up(stuck, "dead: look", 4)
    threads = threading.active_count()
    asked = threading.Event()
    with pytest.raises(TimeoutError, match="not asked again yet: 4 earlier calls to it are still unanswered"):
        Patience(seconds=60, place="dead").wait_for(asked.set, "look")
    assert threading.active_count() == threads
    assert not asked.is_set()
    assert Patience(seconds=60, place="dead").wait_for(lambda: "well", "open") == "well"
    stuck.set()
    while has_given_up():
        threading.Event().wait(0.01)
    assert answer_within(10, lambda: "well", place="dead: look") == "well"


def test_a_place_whose_unanswered_calls_never_end_is_tried_again_ever_more_seldom(stuck, monkeypatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(patience, "monotonic", lambda: now)
    give_up(stuck, "dead", 4)
    tried = []
    for _ in range(24 * 60):
        now += 60
        try:
            answer_within(0.01, stuck.wait, place="dead")
        except TimeoutError as error:
            tried += [now] if str(error).startswith("no answer") else []
    assert 24 <= len(tried) <= 48
    now += 3_600
    assert answer_within(10, lambda: "well", place="dead") == "well"
    assert answer_within(10, lambda: "well", place="dead") == "well"


def test_a_place_that_refuses_at_once_is_asked_at_once_again_but_forgiven_only_when_it_answers(stuck, monkeypatch):
    now = 1_000.0
    monkeypatch.setattr(patience, "monotonic", lambda: now)
    give_up(stuck, "dead", 4)
    now += 60
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            answer_within(10, lambda: 1 / 0, place="dead")
    give_up(stuck, "dead", 1)
    with pytest.raises(TimeoutError, match="5 earlier calls to it are still unanswered"):
        answer_within(10, lambda: "well", place="dead")


def test_calls_without_a_place_are_always_made(stuck) -> None:
    give_up(stuck, "", 6)


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
