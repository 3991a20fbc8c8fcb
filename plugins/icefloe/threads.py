"""Threads that begin or raise, and calls that several of them make."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from itertools import count
from threading import Event, Lock, Thread, current_thread
from typing import Final, Generic, TypeVar, cast

__all__ = ["BegunThread", "Lanes", "map_in_threads"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_BIRTH_SECONDS: Final = 60
_NO_ANSWER: Final = object()


class BegunThread(Thread):
    """A thread whose `start` ends, even if the system has no memory for it."""

    def __init__(self, *, target: Callable[[], object], name: str, daemon: bool = False) -> None:
        super().__init__(target=target, name=name, daemon=daemon)
        # Python waits without limit for this event, also if the thread died before it could set it: issue 140746 of
        # CPython. A Python that waits for something else leaves the event aside.
        self._started = _Birth()

    def start(self) -> None:
        """Starts the thread.

        Raises:
            MemoryError: the system refused the thread, or memory for its first call; a limit may be the ``pids`` of a
                container.
            RuntimeError: the thread was started before, or this process is about to end.
        """
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
        threads: number of calls at once.

    >>> map_in_threads(str, range(3), threads=2, name="example")
    ['0', '1', '2']

    An error that is raised into the wait, such as a task's time limit, ends it at once: a call may hang for ever. Calls
    that run go on until the process ends. Ctrl-C lets them end, because it can be pressed again.

    Raises:
        BaseException: of several calls the error of the first item, after all calls have ended.
        MemoryError: the system refused a thread, or memory to end its call.
    """
    calls = _Calls(call, items)
    begun: list[BegunThread] = []
    try:
        refusal = _begin(begun, calls.make, number=min(threads, len(items)), name=name)
        if refusal is not None:
            calls.is_over.set()
        _join(begun)
    except KeyboardInterrupt:
        calls.is_over.set()
        _join(begun)
        raise
    finally:
        calls.is_over.set()
    if refusal is not None:
        raise refusal
    return calls.answers()


def _begin(begun: list[BegunThread], target: Callable[[], object], *, number: int, name: str) -> Exception | None:
    """Adds each thread to ``begun``; returns the error of one that could not be started."""
    for each in range(number):
        thread = BegunThread(target=target, name=f"{name}_{each}")
        try:
            thread.start()
        except (MemoryError, RuntimeError) as refusal:
            return refusal
        begun.append(thread)
    return None


def _join(begun: Sequence[BegunThread]) -> None:
    for thread in begun:
        # Second by second: Python would handle a signal that comes right before a wait without a limit only after it.
        while thread.is_alive():
            thread.join(1)


class _Calls(Generic[Item, Answer]):
    def __init__(self, call: Callable[[Item], Answer], items: Sequence[Item]) -> None:
        self._call = call
        self._items = items
        # Each number is taken once: the counter is one step of the interpreter.
        self._numbers = count()
        self._answers: list[object] = [_NO_ANSWER] * len(items)
        self._errors: dict[int, BaseException] = {}
        self.is_over = Event()

    def make(self) -> None:
        while not self.is_over.is_set() and (number := next(self._numbers)) < len(self._items):
            try:
                self._answers[number] = self._call(self._items[number])
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
                self.is_over.set()
                self._errors[number] = error

    def answers(self) -> list[Answer]:
        """Called when all threads have ended."""
        if self._errors:
            raise self._errors[min(self._errors)]
        if any(answer is _NO_ANSWER for answer in self._answers):
            raise MemoryError("a thread of this process ended in the middle of its work")
        return cast("list[Answer]", self._answers)


class Lanes:
    """Runs calls in lanes. Each lane has a few threads; further calls wait for one.

    A thread is started when a call needs it, and ends when its lane has no more calls. So there may be many lanes, if
    few are ever full.
    """

    def __init__(self, *, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._lanes: dict[str, _Lane] = {}
        self._lock = Lock()

    def submit(self, lane: str, call: Callable[[], Answer]) -> Future[Answer]:
        """Runs a call in the lane of a catalog or store. `MemoryError` if the system refuses the only thread."""
        with self._lock:
            if lane not in self._lanes:
                self._lanes[lane] = _Lane(threads=self._threads, name=self._name)
        future: Future[Answer] = Future()
        # In the context of the caller: by it Airflow's triggerer tells to which trigger a line of its log belongs.
        self._lanes[lane].add(partial(_settle, future, partial(copy_context().run, call)))
        return future

    async def run(self, lane: str, call: Callable[[], Answer]) -> Answer:
        """Runs a call in its lane and waits for it. If the caller is cancelled, a call that has not begun is too."""
        return await asyncio.wrap_future(self.submit(lane, call))


class _Lane:
    """Waiting calls of one lane, and its threads."""

    def __init__(self, *, threads: int, name: str) -> None:
        self._most = threads
        self._name = name
        self._waiting: deque[Callable[[], None]] = deque()
        self._begun: set[Thread] = set()
        self._lock = Lock()

    def add(self, call: Callable[[], None]) -> None:
        with self._lock:
            self._waiting.append(call)
            # A thread that got no memory in the middle of its work is gone.
            self._begun = {thread for thread in self._begun if thread.is_alive()}
            if len(self._begun) < self._most:
                self._begin()

    def _begin(self) -> None:
        thread = BegunThread(target=self._work, name=self._name)
        try:
            thread.start()
        except MemoryError:
            if not self._begun:
                self._waiting.pop()
                raise
            # The threads that are there make the call, later.
        else:
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


def _settle(future: Future[Answer], call: Callable[[], Answer]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits
        future.set_exception(error)
