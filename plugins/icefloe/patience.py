"""Calls with a time limit or in several threads, and places that are not asked while calls to them hang."""

import asyncio
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache, partial
from threading import Event, Lock, Thread, current_thread
from time import monotonic, sleep
from typing import Any, Final, Self, TypeVar

from icefloe.errors import TerminalError

__all__ = [
    "Lane",
    "Lanes",
    "Patience",
    "answer_within",
    "brief_seconds",
    "has_given_up",
    "map_in_threads",
    "patience_seconds",
    "silence_of",
]

Item = TypeVar("Item")
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
def silence_of(*_place: str) -> Silence:
    """The silence of a place in this process, which opens the same place many times."""
    return Silence()


_unanswered: Final[defaultdict[str, dict[Future[Any], float]]] = defaultdict(dict)
"""By place, the calls that were given up and may still run, with the times of the last call each stands for."""
_unanswered_lock: Final = threading.Lock()


def answer_within(seconds: float, call: Callable[[], Answer], *, place: str = "") -> Answer:
    """Makes a call that has no time limit of its own; returns its value or raises its error.

    The call runs in a daemon thread. A call that is given up goes on there, so its network requests should have a
    timeout too.

    Args:
        place: while four calls to it that were given up still run, others are made now and then only: a long-lived
            process would fill with threads. Empty: a call is always made.

    Raises:
        TimeoutError: the call did not end in time, or was not made.
        MemoryError: the system refused the thread, or memory for it.
    """
    if place:
        with _unanswered_lock:
            earlier = _unanswered[place] = {each: at for each, at in _unanswered[place].items() if not each.done()}
            if len(earlier) >= _MOST_UNANSWERED:
                # A minute after 4 waiting calls, two after 5, up to an hour: each one more may leave a thread.
                pause = _FIRST_PAUSE_SECONDS * 2 ** min(len(earlier) - _MOST_UNANSWERED, 10)
                if monotonic() - max(earlier.values()) < min(pause, _LONGEST_PAUSE_SECONDS):
                    raise TimeoutError(f"not asked again yet: {len(earlier)} earlier calls to it are still unanswered")
                earlier[next(iter(earlier))] = monotonic()
    [answer] = Lane(threads=1, name=_THREAD_NAME, daemon=True).submit(call)
    wait([answer], timeout=seconds)
    with _unanswered_lock:
        if not answer.done():
            if place:
                _unanswered[place][answer] = monotonic()
            raise TimeoutError(f"no answer within {seconds:.3g} seconds")
        if answer.exception() is None:
            # It answers again: calls that still wait for an earlier answer no longer count.
            _unanswered.pop(place, None)
    return answer.result()


def has_given_up() -> bool:
    """True if a call that was given up still runs: a library may wait for it when the process ends."""
    return any(thread.name.startswith(_THREAD_NAME) for thread in threading.enumerate())


_BIRTH_SECONDS: Final = 60


class BegunThread(Thread):
    """A thread whose `start` ends, even if the system has no memory for it."""

    def __init__(self, *, target: Callable[[], object], name: str, daemon: bool = False) -> None:
        super().__init__(target=target, name=name, daemon=daemon)
        # Python waits without limit for this event, also if the thread died before it could set it: issue 140746 of
        # CPython. A Python that waits for something else leaves the event aside.
        self._started = _Birth()

    def start(self) -> None:
        """Starts the thread. `MemoryError` if the system refuses it, perhaps by a container's ``pids`` limit."""
        is_new = self.ident is None and not sys.is_finalizing()
        try:
            super().start()
        except RuntimeError as cause:
            if not is_new:
                raise
            raise MemoryError("the system lets this process start no further thread") from cause


class _Birth(Event):
    """Set by a thread when it begins. A wait without a limit gets one."""

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None:
            return super().wait(timeout)
        # Second by second: the time for which the whole process was stopped counts as one of them.
        if not any(super(_Birth, self).wait(1) for _ in range(_BIRTH_SECONDS)):
            raise MemoryError("a thread of this process ended before it began")
        return True


def map_in_threads(call: Callable[[Item], Answer], items: Sequence[Item], *, threads: int, name: str) -> list[Answer]:
    """The results of a call for each item, in the order of the items. After an error no further call is begun.

    Args:
        threads: number of calls at once; fewer if the system refuses some of the threads.

    >>> map_in_threads(str, range(3), threads=2, name="example")
    ['0', '1', '2']

    An error that is raised into the wait, such as a task's time limit, ends it at once: a call may hang for ever. Calls
    that run go on until the process ends. Ctrl-C lets them end, because it can be pressed again.

    Raises:
        BaseException: of several calls the error of the first item, after all calls have ended.
        MemoryError: the system refused all threads, or memory to end a call.
    """
    lane, is_over = Lane(threads=threads, name=name), Event()

    def make(item: Item) -> Answer:
        if is_over.is_set():
            raise CancelledError
        try:
            return call(item)
        except BaseException:
            is_over.set()
            raise

    answers: list[Future[Answer]] = []
    try:
        answers = lane.submit(*(partial(make, item) for item in items))
        _wait_for(lane, answers)
    except KeyboardInterrupt:
        is_over.set()
        # Of the lane: it may have begun calls before this function has their answers.
        while lane.is_at_work:
            sleep(0.01)
        raise
    finally:
        is_over.set()
    errors = (answer.exception() for answer in answers)
    if (first := next((each for each in errors if each and not isinstance(each, CancelledError)), None)) is not None:
        raise first
    return [answer.result() for answer in answers]


def _wait_for(lane: "Lane", answers: Collection[Future[Any]]) -> None:
    while answers:
        is_at_work = lane.is_at_work
        # Second by second: Python would handle a signal that comes right before a wait without a limit only after it.
        answers = wait(answers, timeout=1 if is_at_work else 0).not_done
        if answers and not is_at_work:
            raise MemoryError("a thread of this process ended in the middle of its work")


class Lane:
    """Runs calls in a few threads; further calls wait for one.

    A thread is started when a call needs it, and ends when there are no more calls.

    Args:
        daemon: the end of the process does not wait for the calls.
    """

    def __init__(self, *, threads: int, name: str, daemon: bool = False) -> None:
        self._most = threads
        self._name = name
        self._daemon = daemon
        self._waiting: deque[Callable[[], None]] = deque()
        self._begun: set[Thread] = set()
        self._lock = Lock()

    @property
    def is_at_work(self) -> bool:
        """False if no thread is left that could make a call."""
        with self._lock:
            return any(thread.is_alive() for thread in self._begun)

    def submit(self, *calls: Callable[[], Answer]) -> list[Future[Answer]]:
        """Runs calls; `MemoryError` if the system refuses the only thread."""
        answers: list[Future[Answer]] = [Future() for _ in calls]
        with self._lock:
            # In the context of the caller: by it Airflow's triggerer tells to which trigger a line of its log belongs.
            self._waiting += [
                partial(_settle, answer, partial(copy_context().run, call))
                for answer, call in zip(answers, calls, strict=True)
            ]
            # A thread that got no memory in the middle of its work is gone.
            self._begun = {thread for thread in self._begun if thread.is_alive()}
            for _ in range(min(self._most - len(self._begun), len(calls))):
                try:
                    self._begin()
                except MemoryError:
                    # The threads that are there make the calls. They wait for the lock: none has ended meanwhile.
                    if self._begun:
                        break
                    for _ in calls:
                        self._waiting.pop()
                    raise
        return answers

    def _begin(self) -> None:
        thread = BegunThread(target=self._work, name=f"{self._name}_{len(self._begun)}", daemon=self._daemon)
        thread.start()
        self._begun.add(thread)

    def _work(self) -> None:
        while (call := self._next()) is not None:
            call()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._begun.discard(current_thread())
            return None


class Lanes:
    """Lanes by the names of catalogs and stores. There may be many of them, if few are ever full."""

    def __init__(self, *, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._lanes: dict[str, Lane] = {}

    def submit(self, lane: str, call: Callable[[], Answer]) -> Future[Answer]:
        """Runs a call in the lane of a catalog or store; see `Lane.submit`."""
        [answer] = self._lanes.setdefault(lane, Lane(threads=self._threads, name=self._name)).submit(call)
        return answer

    async def run(self, lane: str, call: Callable[[], Answer]) -> Answer:
        """Runs a call in its lane and waits for it. If the caller is cancelled, a call that has not begun is too."""
        return await asyncio.wrap_future(self.submit(lane, call))


def _settle(future: Future[Answer], call: Callable[[], Answer]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits
        future.set_exception(error)
