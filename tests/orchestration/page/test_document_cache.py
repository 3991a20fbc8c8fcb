from collections.abc import Callable, Mapping
from functools import partial
from threading import Event
from typing import Any

import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.orchestration.page.checkpoint_reader import DocumentCache, Found, Look


def ask(cache: DocumentCache, looks: Mapping[str, Callable[[], Any]], **lanes: str) -> Mapping[str, Found]:
    """Asks for documents by their names; those without a lane share one."""
    return cache.get({name: Look(name=name, read=read, lane=lanes.get(name, "")) for name, read in looks.items()})


class Answers:
    """The answers of several looks at one document; an error is raised."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)

    def __call__(self) -> object:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(("fresh_seconds", "values"), [(60, [1, 1]), (0, [1, 2])])
def test_an_answer_counts_for_a_while(fresh_seconds: int, values: list[int]) -> None:
    cache = DocumentCache(fresh_seconds=fresh_seconds, deadline_seconds=30)
    answers = iter([1, 2])
    assert [ask(cache, {"a": lambda: next(answers)})["a"].value for _ in range(2)] == values


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (TerminalError("access is denied"), "access is denied"),
        (TransientError("the store timed out"), "the store timed out; the page looks again"),
        (
            ValueError("token=hunter2"),
            "a could not be read (ValueError): run `icefloe status` on a machine that reaches the store",
        ),
    ],
)
def test_an_error_becomes_a_sentence(error: Exception, sentence: str) -> None:
    def fail() -> None:
        raise error

    found = ask(DocumentCache(fresh_seconds=60, deadline_seconds=30), {"a": fail, "b": lambda: 1})
    assert (found["a"].sentence, found["b"].value) == (sentence, 1)


def known(cache: DocumentCache, looks: Mapping[str, Callable[[], Any]], name: str, **lanes: str) -> Mapping[str, Any]:
    """Asks until a look was answered in time, which a busy machine may not do at once."""
    return next(found for _ in range(200) if (found := ask(cache, looks, **lanes))[name].value is not None)


def test_a_look_that_does_not_come_back_holds_up_nobody_and_is_not_made_twice() -> None:
    release, looks = Event(), []

    def hang() -> str:
        looks.append(1)
        release.wait(30)
        return "late"

    cache = DocumentCache(fresh_seconds=60, deadline_seconds=0.2)
    first = known(cache, {"slow": hang, "fast": lambda: "at once"}, "fast")
    second = ask(cache, {"slow": hang})
    assert first["fast"].value == "at once"
    assert first["slow"].sentence == "slow did not answer within 0.2 seconds; the page looks again"
    assert second["slow"].value is None
    release.set()
    patient = DocumentCache(fresh_seconds=60, deadline_seconds=30)
    assert ask(patient, {"slow": hang})["slow"].value == "late"
    assert len(looks) == 2


def test_the_last_answer_is_kept_while_a_new_look_takes_too_long() -> None:
    release = Event()
    cache = DocumentCache(fresh_seconds=0, deadline_seconds=0.2)
    assert known(cache, {"a": lambda: "before"}, "a")["a"].value == "before"
    assert ask(cache, {"a": lambda: release.wait(30)})["a"].value == "before"
    release.set()


def test_the_last_answer_is_shown_with_the_error_of_a_failed_look() -> None:
    cache = DocumentCache(fresh_seconds=0, deadline_seconds=30)
    look = Answers("before", *[TransientError("the store timed out")] * 2)
    assert ask(cache, {"a": look})["a"].value == "before"
    for _ in range(2):
        found = ask(cache, {"a": look})["a"]
        assert (found.value, found.sentence) == ("before", "the store timed out; the page looks again")


def test_known_answers_count_however_many_there_are() -> None:
    cache, looks = DocumentCache(fresh_seconds=60, deadline_seconds=30), list[str]()

    def read(name: str) -> str:
        looks.append(name)
        return name

    def look_for(*names: str) -> list[object]:
        found = ask(cache, {name: partial(read, name) for name in names})
        return [each.value for each in found.values()]

    first, more = [str(number) for number in range(300)], [str(number) for number in range(350)]
    assert look_for(*first) == first
    assert look_for(*more) == more
    assert look_for("0") == ["0"]
    assert look_for(*more) == more
    assert len(looks) == 350


def test_an_answer_is_forgotten_long_after_it_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("icefloe.orchestration.page.checkpoint_reader.time.monotonic", lambda: now[0])
    cache = DocumentCache(fresh_seconds=30, deadline_seconds=30)
    ask(cache, {"a": lambda: 1})
    for moment, kept in ((60, ["a", "b"]), (90 + 600, ["b"])):
        now[0] = moment
        ask(cache, {"b": lambda: 2})
        assert list(cache._known) == kept


def test_a_look_that_lacks_a_thread_has_failed_and_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def starve(_: object) -> None:
        raise MemoryError("the system lets this process start no further thread")

    cache = DocumentCache(fresh_seconds=0, deadline_seconds=30)
    assert ask(cache, {"a": lambda: 1})["a"].value == 1
    with monkeypatch.context() as starved:
        starved.setattr("icefloe.patience.BegunThread.start", starve)
        found = ask(cache, {"a": lambda: 2})["a"]
    assert found.value == 1
    assert (found.sentence or "").startswith("a could not be read (MemoryError): ")
    assert ask(cache, {"a": lambda: 3})["a"].value == 3


def test_a_lane_that_does_not_answer_holds_up_no_other() -> None:
    release = Event()
    cache = DocumentCache(fresh_seconds=60, deadline_seconds=0.2, threads=2)
    looks = {f"dead {number}": lambda: release.wait(60) for number in range(9)}
    dead = known(cache, {**looks, "live": lambda: 1}, "live", live="another store")
    assert (dead["live"].value, dead["dead 8"].value) == (1, None)
    release.set()


def test_looks_in_the_background_are_waited_for_by_nobody() -> None:
    release = Event()
    cache = DocumentCache(fresh_seconds=0, deadline_seconds=0, threads=1)
    found = ask(cache, {"a": lambda: release.wait(30)})["a"]
    assert (found.value, found.sentence) == (None, None)
    release.set()


@pytest.mark.parametrize(
    "missing", [None, TerminalError("there is no report"), TransientError("it timed out"), OSError()]
)
def test_only_a_document_that_was_read_counts_for_long(missing: object) -> None:
    cache = DocumentCache(fresh_seconds=86_400, deadline_seconds=30, retry_seconds=0)
    look = Answers(missing, "the report", "another one")
    assert [ask(cache, {"a": look})["a"].value for _ in range(3)] == [None, "the report", "the report"]
    patient = DocumentCache(fresh_seconds=86_400, deadline_seconds=30, retry_seconds=60)
    look = Answers(missing)
    assert [ask(patient, {"a": look})["a"].value for _ in range(2)] == [None, None]


def test_the_oldest_document_makes_room_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icefloe.orchestration.page.checkpoint_reader._MAX_ENTRIES", 2)
    cache = DocumentCache(fresh_seconds=60, deadline_seconds=30)
    looks: list[str] = []
    for key in ("a", "b", "c", "a", "c"):
        assert ask(cache, {key: partial(looks.append, key)})[key].sentence is None
    assert looks == ["a", "b", "c", "a"]
