"""A run that is stopped at its n-th operation on a store, for as long as the test wants.

    with gated_stores():
        late = GatedRun(7, run)      # a thread, and whatever threads it starts
        if late.is_stopped():        # False: it has fewer than 7 operations
            ...                      # others go on
        error = late.finish()

The threads of one run stop, all others pass.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Lock, Thread, current_thread
from typing import Any, Final
from unittest import mock

from icefloe.storage.local_store import LocalStore
from icefloe.storage.object_store import ObjectStore
from icefloe.storage.store import join_url

__all__ = ["Gate", "GatedRun", "gated_stores"]

_OPERATIONS: Final = ("get", "get_ranges", "put", "create", "size", "delete", "list")
_SECONDS: Final = 120
"""A test that forgets a run must end."""


class Gate:
    """Counts the operations of one run, and halts at one of them.

    Args:
        place: the operation before which to halt, counted from 1.
        halt: called there, by each thread that comes to the gate before it is open.
        of: a part of the URL of the operations that count; empty: all of them.
    """

    def __init__(self, place: int, halt: Callable[[], object], *, of: str = "") -> None:
        self.where = ""
        self._place, self._halt, self._of = place, halt, of
        self._seen, self._lock = 0, Lock()

    def arrive(self, operation: str, url: str) -> None:
        """Counts an operation; probes are no documents, nobody reads them."""
        if "/_probe" in url or self._of not in url:
            return
        with self._lock:
            self._seen += 1
            if self._seen < self._place:
                return
            self.where = self.where or f"{operation} {url}"
        self._halt()


class GatedRun:
    """A function in a thread of its own, stopped at a place or ended.

    Args:
        place: see `Gate`.
        function: the run.
        of: see `Gate`.
    """

    def __init__(self, place: int, function: Callable[[], object], *, of: str = "") -> None:
        self._function = function
        self._news, self._open = Event(), Event()
        self._error: BaseException | None = None
        self._gate = Gate(place, self._wait, of=of)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.gate = self._gate  # type: ignore[attr-defined]
        self._thread.start()

    @property
    def where(self) -> str:
        """The operation before which it was stopped; empty if it ended before."""
        return self._gate.where

    def is_stopped(self) -> bool:
        """Waits until the run is stopped or has ended."""
        assert self._news.wait(_SECONDS), "the run neither ended nor came to its place"
        return self.where != ""

    def go_on(self) -> None:
        """Lets the run go on, and does not wait for it."""
        self._open.set()

    def finish(self) -> BaseException | None:
        """Lets the run go on to its end; returns its error."""
        self.go_on()
        self._thread.join(_SECONDS)
        assert not self._thread.is_alive(), f"the run that was stopped before {self.where} does not end"
        return self._error

    def _run(self) -> None:
        try:
            self._function()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self._error = error
        self._news.set()

    def _wait(self) -> None:
        self._news.set()
        self._open.wait(_SECONDS)


@contextmanager
def gated_stores(everybody: Gate | None = None) -> Iterator[None]:
    """Makes every store look for the gate of the thread that uses it.

    A thread has the gate of the thread that starts it.

    Args:
        everybody: the gate of threads that have none.
    """
    start = Thread.start

    def start_with_gate(thread: Thread) -> None:
        gate = getattr(current_thread(), "gate", None)
        if gate is not None and not hasattr(thread, "gate"):
            thread.gate = gate  # type: ignore[attr-defined]
        start(thread)

    def arrive(store: ObjectStore, operation: str, key: object) -> None:
        gate = getattr(current_thread(), "gate", everybody)
        if gate is not None:
            gate.arrive(operation, join_url(store.url, key) if isinstance(key, str) and key else store.url)

    def gated(name: str, whole: Callable[..., Any]) -> Callable[..., Any]:
        def operation(store: ObjectStore, key: Any, *arguments: Any) -> Any:
            arrive(store, name, key)
            return whole(store, key, *arguments)

        return operation

    def remove_unfinished(store: LocalStore, prefix: str = "", *, is_over: bool = False) -> int:
        arrive(store, "remove_unfinished", prefix)
        return whole_removal(store, prefix, is_over=is_over)

    whole_removal = LocalStore.remove_unfinished
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Thread, "start", start_with_gate))
        patches.enter_context(mock.patch.object(LocalStore, "remove_unfinished", remove_unfinished))
        for name in _OPERATIONS:
            patches.enter_context(mock.patch.object(ObjectStore, name, gated(name, getattr(ObjectStore, name))))
        yield
