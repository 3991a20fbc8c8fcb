import time
from threading import Event

import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.orchestration.page.document_cache import DocumentCache


def test_an_answer_counts_for_a_while() -> None:
    cache = DocumentCache(fresh_seconds=60, deadline_seconds=5)
    answers = iter([1, 2])
    assert [cache.get({"a": lambda: next(answers)})["a"].value for _ in range(2)] == [1, 1]


def test_what_is_old_is_looked_at_anew() -> None:
    cache = DocumentCache(fresh_seconds=0, deadline_seconds=5)
    answers = iter([1, 2])
    assert [cache.get({"a": lambda: next(answers)})["a"].value for _ in range(2)] == [1, 2]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (TerminalError("access is denied"), "access is denied"),
        (TransientError("the store timed out"), "the store timed out; the page looks again"),
        (ZeroDivisionError("by\nzero"), "ZeroDivisionError: by zero"),
    ],
)
def test_an_error_becomes_a_sentence(error: Exception, sentence: str) -> None:
    def fail() -> None:
        raise error

    found = DocumentCache(fresh_seconds=60, deadline_seconds=5).get({"a": fail, "b": lambda: 1})
    assert (found["a"].sentence, found["b"].value) == (sentence, 1)


def test_a_look_that_does_not_come_back_holds_up_nobody_and_is_not_made_twice() -> None:
    release, looks = Event(), []

    def hang() -> str:
        looks.append(1)
        release.wait(30)
        return "late"

    cache = DocumentCache(fresh_seconds=60, deadline_seconds=0.2)
    started = time.monotonic()
    first = cache.get({"slow": hang, "fast": lambda: "at once"})
    second = cache.get({"slow": hang})
    assert time.monotonic() - started < 10
    assert first["fast"].value == "at once"
    assert first["slow"].sentence == "slow did not answer within 0.2 seconds; the page looks again"
    assert second["slow"].value is None
    release.set()
    patient = DocumentCache(fresh_seconds=60, deadline_seconds=5)
    assert patient.get({"slow": hang})["slow"].value == "late"
    assert len(looks) == 2


def test_the_last_answer_stands_while_a_new_look_takes_too_long() -> None:
    release = Event()
    cache = DocumentCache(fresh_seconds=0, deadline_seconds=0.2)
    assert cache.get({"a": lambda: "before"})["a"].value == "before"
    assert cache.get({"a": lambda: release.wait(30)})["a"].value == "before"
    release.set()


def test_what_was_read_stands_beside_the_sentence_of_a_look_that_failed() -> None:
    cache = DocumentCache(fresh_seconds=0, deadline_seconds=5)
    answers = iter(["before"])

    def look() -> str:
        try:
            return next(answers)
        except StopIteration:
            raise TransientError("the store timed out") from None

    assert cache.get({"a": look})["a"].value == "before"
    for _ in range(2):
        found = cache.get({"a": look})["a"]
        assert (found.value, found.sentence) == ("before", "the store timed out; the page looks again")


def test_a_lane_that_does_not_answer_holds_up_no_other() -> None:
    release = Event()
    cache = DocumentCache(fresh_seconds=60, deadline_seconds=5, threads=2)
    looks = {f"dead {number}": lambda: release.wait(60) for number in range(9)}
    dead = cache.get({**looks, "live": lambda: 1}, lanes={"live": "another store"})
    assert (dead["live"].value, dead["dead 8"].value) == (1, None)
    release.set()


def test_looks_in_the_background_are_waited_for_by_nobody() -> None:
    release = Event()
    cache = DocumentCache(fresh_seconds=0, deadline_seconds=0, threads=1)
    found = cache.get({"a": lambda: release.wait(30)})["a"]
    assert (found.value, found.sentence) == (None, None)
    release.set()
