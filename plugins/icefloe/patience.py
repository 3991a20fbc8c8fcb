"""Calls with a time limit, and places that are not asked while calls to them hang."""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import cache, partial
from time import monotonic
from typing import Any, Final, Self, TypeVar

from icefloe.errors import TerminalError
from icefloe.threads import Lane

__all__ = ["Patience", "answer_within", "brief_seconds", "has_given_up", "patience_seconds", "silence_of"]

Answer = TypeVar("Answer")

PATIENCE_VARIABLE: Final = "ICEFLOE_PATIENCE_SECONDS"
_DEFAULT_SECONDS: Final = 60.0
_BRIEF_SHARE: Final = 1 / 12
_BRIEF_SECONDS: Final = 2.0
_THREAD_NAME: Final = "icefloe-waits-for-an-answer"
_MOST_UNANSWERED: Final = 4
_FIRST_PAUSE_SECONDS: Final = 60.0
_LONGEST_PAUSE_SECONDS: Final = 3_600.0


def patience_seconds(environ: Mapping[str, str]) -> float:
    """Seconds that a place may keep silent: ``ICEFLOE_PATIENCE_SECONDS``, 60 by default.

    >>> patience_seconds({}), patience_seconds({"ICEFLOE_PATIENCE_SECONDS": "7.5"})
    (60.0, 7.5)
    """
    text = environ.get(PATIENCE_VARIABLE, "").strip()
    try:
        seconds = float(text) if text else _DEFAULT_SECONDS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise TerminalError(f"{PATIENCE_VARIABLE} is {text!r}, not a number of seconds above 0: write 60, for example")
    return seconds


def brief_seconds(patience: float) -> float:
    """Seconds for a call that only tidies up, or has no time left: 5 of 60 seconds.

    >>> brief_seconds(60.0), brief_seconds(6.0), brief_seconds(1.0)
    (5.0, 2.0, 1.0)
    """
    return max(patience * _BRIEF_SHARE, min(_BRIEF_SECONDS, patience))


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds that several calls share; each gets the time that earlier calls left, and a little in any case."""

    seconds: float
    place: str = ""
    _started: float = field(default_factory=monotonic)

    @classmethod
    def of(cls, environ: Mapping[str, str], *, place: str = "") -> Self:
        """Starts to wait now, for the time in the environment."""
        return cls(seconds=patience_seconds(environ), place=place)

    @property
    def seconds_left(self) -> float:
        """Seconds for the next call."""
        # Of 60 s, a first call took 50: the next one gets 10. If it took 59, the next one still gets 5.
        return max(brief_seconds(self.seconds), self._started + self.seconds - monotonic())

    def wait_for(self, call: Callable[[], Answer], doing: str = "") -> Answer:
        """Makes a call; returns its value or raises its error.

        Args:
            doing: request to the place: one of its services may be silent while another answers.

        Raises:
            TimeoutError: the call did not end in time, or was not made.
        """
        return answer_within(self.seconds_left, call, place=self.place and f"{self.place}: {doing}")


class Silence:
    """Begins when a place did not answer, ends when it answers or after a while; for all threads."""

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def is_recent(self) -> bool:
        """True if it has begun and not ended."""
        return monotonic() < self._until

    def begin(self, seconds: float) -> None:
        """Begins, for a while."""
        self._until = monotonic() + seconds

    def end(self) -> None:
        """Ends: the place answered."""
        self._until = 0.0


@cache
def silence_of(*place: str) -> Silence:
    """The silence of a place in this process, which opens the same place many times."""
    del place
    return Silence()


class _Unanswered:
    """Calls to one place that were given up and still run. Callers hold the lock."""

    def __init__(self) -> None:
        self.calls: set[Future[Any]] = set()
        self.silence = Silence()

    @property
    def is_paused(self) -> bool:
        """True if so many wait, perhaps for ever, that one more call is made only now and then."""
        return len(self.calls) >= _MOST_UNANSWERED and self.silence.is_recent

    def pause(self) -> None:
        """The more calls wait, the longer until another is let through."""
        # A minute with 4 waiting calls, two with 5, up to an hour: each call that is let through may leave a thread.
        doublings = min(max(len(self.calls) - _MOST_UNANSWERED, 0), 10)
        self.silence.begin(min(_FIRST_PAUSE_SECONDS * 2**doublings, _LONGEST_PAUSE_SECONDS))


_unanswered: Final[defaultdict[str, _Unanswered]] = defaultdict(_Unanswered)
_unanswered_lock: Final = threading.Lock()


def answer_within(seconds: float, call: Callable[[], Answer], *, place: str = "") -> Answer:
    """Makes a call that has no time limit of its own; returns its value or raises its error.

    The call runs in a daemon thread. A call that is given up goes on there, so its network requests should have a
    timeout too.

    Args:
        place: while several calls to it that were given up still run, no other call is made: a long-lived process would
            fill with threads. Empty: a call is always made.

    Raises:
        TimeoutError: the call did not end in time, or was not made.
        MemoryError: the system refused the thread, or memory for it.
    """
    if place:
        with _unanswered_lock:
            earlier = _unanswered[place]
            if earlier.is_paused:
                raise TimeoutError(
                    f"not asked again yet: {len(earlier.calls)} earlier calls to it are still unanswered"
                )
            if len(earlier.calls) >= _MOST_UNANSWERED:
                earlier.pause()
    [answer] = Lane(threads=1, name=_THREAD_NAME, daemon=True).submit(call)
    wait([answer], timeout=seconds)
    if _is_given_up(answer, place):
        raise TimeoutError(f"no answer within {seconds:.3g} seconds")
    return answer.result()


def _is_given_up(answer: Future[Any], place: str) -> bool:
    with _unanswered_lock:
        if answer.done():
            if place and answer.exception() is None:
                # It answers again: calls that still wait for an earlier answer no longer count.
                _unanswered.pop(place, None)
            elif place:
                _unanswered[place].silence.end()
            return False
        if place:
            _unanswered[place].calls.add(answer)
            _unanswered[place].pause()
    answer.add_done_callback(partial(_forget, place))
    return True


def _forget(place: str, answer: Future[Any]) -> None:
    with _unanswered_lock:
        if place in _unanswered:
            _unanswered[place].calls.discard(answer)


def has_given_up() -> bool:
    """True if a call that was given up still runs: a library may wait for it when the process ends."""
    return any(thread.name.startswith(_THREAD_NAME) for thread in threading.enumerate())
