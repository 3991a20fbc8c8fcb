import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from threading import Thread

import pytest

from icefloe import patience
from icefloe.errors import TerminalError
from icefloe.patience import (
    PATIENCE_VARIABLE,
    BegunThread,
    Patience,
    answer_within,
    has_given_up,
    map_in_threads,
    patience_seconds,
)


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
    tried = 0
    for _ in range(24 * 60):
        now += 60
        with pytest.raises(TimeoutError) as caught:
            answer_within(0.001, stuck.wait, place="dead")
        tried += str(caught.value).startswith("no answer")
    assert 24 < tried <= 36
    now += 3_600
    with pytest.raises(ZeroDivisionError):
        answer_within(10, lambda: 1 / 0, place="dead")
    with pytest.raises(TimeoutError, match="not asked again yet"):
        answer_within(10, lambda: "well", place="dead")
    now += 3_600
    for _ in range(2):
        assert answer_within(10, lambda: "well", place="dead") == "well"
        give_up(stuck, "dead", 3)


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


def test_a_thread_that_ends_before_it_begins_is_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_BIRTH_SECONDS", 1)
    monkeypatch.setattr(Thread, "_bootstrap", lambda _: None)
    with pytest.raises(MemoryError, match="ended before it began"):
        map_in_threads(str, range(3), threads=2, name="stillborn")


def test_a_thread_that_ends_before_its_call_is_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BegunThread, "run", lambda _: None)
    with pytest.raises(MemoryError, match="in the middle of its work"):
        map_in_threads(str, range(3), threads=2, name="short-lived")


def test_a_thread_that_is_started_twice_is_no_lack_of_memory() -> None:
    thread = BegunThread(target=lambda: None, name="once")
    thread.start()
    with pytest.raises(RuntimeError, match="only be started once"):
        thread.start()
    thread.join()


def test_calls_end_before_the_error_of_the_first_item_is_raised() -> None:
    both, ended = threading.Barrier(2), []

    def fail(number: int) -> None:
        both.wait(10)
        ended.append(number)
        raise RuntimeError(f"call {number}")

    with pytest.raises(RuntimeError, match="call 0"):
        map_in_threads(fail, range(100), threads=2, name="failing")
    assert sorted(ended) == [0, 1]


class OutOfTimeError(BaseException):
    """The time limit of a task, as Airflow raises it."""


@pytest.fixture
def time_limit() -> Iterator[Callable[[], None]]:
    """Ends the time of the main thread, from any thread."""

    def end(*_: object) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGALRM, end)
    yield lambda: os.kill(os.getpid(), signal.SIGALRM)
    signal.signal(signal.SIGALRM, before)


def test_a_time_limit_ends_the_wait_for_calls_that_hang(time_limit: Callable[[], None]) -> None:
    both, answer, over = threading.Barrier(2), threading.Event(), threading.Semaphore(0)
    ended = []

    def hang(number: int) -> None:
        if both.wait(10) == 0:
            time_limit()
        answer.wait(20)
        ended.append(number)
        over.release()

    with pytest.raises(OutOfTimeError):
        map_in_threads(hang, range(100), threads=2, name="hanging")
    assert ended == []
    answer.set()
    # CPython 3.11 takes a thread for ended if its join was interrupted.
    assert all(over.acquire(timeout=20) for _ in range(2))
    assert sorted(ended) == [0, 1]
