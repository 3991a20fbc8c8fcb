"""The calls of one process to its destination: counted, and one of them struck by a fault."""

import inspect
from collections.abc import Callable, Collection
from enum import StrEnum
from threading import Lock
from typing import Any


class ProcessEndedError(BaseException):
    """The process was killed. No ``except Exception`` catches it, because a killed process runs no handler."""


class Fault(StrEnum):
    """The fault that strikes one outward call."""

    KILLED_BEFORE = "killed before"
    KILLED_AFTER = "killed after"
    LOST_REQUEST = "cut off before"
    LOST_REPLY = "cut off after"
    STOPPED = "stopped before"


class OutwardCalls:
    """The outward calls of one simulated process, and the fault that strikes one of them.

    A killed process makes no further call: each raises `ProcessEndedError`, also in handlers of the sink.

    Attributes:
        names: names of the calls that were begun, in their order.

    Args:
        fault: None: no fault.
        place: number of the call that is struck, from 0.
        lost_connection: makes the error that the client raises if its connection breaks.
        halt: called by a process that is stopped, and returns when the process is to go on.
    """

    def __init__(
        self,
        fault: Fault | None = None,
        place: int = 0,
        *,
        lost_connection: Callable[[], Exception] = ConnectionError,
        halt: Callable[[], object] = lambda: None,
    ) -> None:
        self.names: list[str] = []
        self._fault, self._place, self._lost_connection, self._halt = fault, place, lost_connection, halt
        self._is_ended = False
        self._when_killed: list[Callable[[], object]] = []
        self._lock = Lock()

    def watch(
        self, client: object, *, only: Collection[str] = (), when_killed: Callable[[], object] | None = None
    ) -> Any:
        """The client, or one function, with its calls counted here and struck by the fault.

        Args:
            client: any object whose methods go out to the destination, or a function. Objects that it has as
                attributes, such as ``client.indices``, are watched too.
            only: names of the methods that go out; empty: each public method does.
            when_killed: called if the process is killed, for what the system does then, such as closing a connection.
        """
        if when_killed is not None:
            self._when_killed.append(when_killed)
        return self._watched("call", client) if inspect.isroutine(client) else _WatchedClient(client, self, only)

    @property
    def where(self) -> str:
        """The place of the fault, for people."""
        name = self.names[self._place] if self._place < len(self.names) else "none"
        return f"{self._fault} outward call {self._place} ({name})"

    @property
    def is_struck(self) -> bool:
        """True if the process came to the place of its fault."""
        return len(self.names) > self._place

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: object, **named: object) -> Any:
            is_struck = self._begin(name)
            if is_struck and self._fault is Fault.KILLED_BEFORE:
                self._end()
            if is_struck and self._fault is Fault.LOST_REQUEST:
                raise self._lost_connection()
            if is_struck and self._fault is Fault.STOPPED:
                self._halt()
            # A reply may be an exception of the client, such as that something is not there.
            try:
                return call(*arguments, **named)
            finally:
                if is_struck and self._fault is Fault.KILLED_AFTER:
                    self._end()
                if is_struck and self._fault is Fault.LOST_REPLY:
                    raise self._lost_connection()

        return watched

    def _begin(self, name: str) -> bool:
        with self._lock:
            if self._is_ended:
                raise ProcessEndedError
            self.names.append(name)
            return self._fault is not None and len(self.names) == self._place + 1

    def _end(self) -> None:
        self._is_ended = True
        for call in self._when_killed:
            call()
        raise ProcessEndedError


class _WatchedClient:
    """Stands in for a client: its attributes are the client's, its methods are watched."""

    def __init__(self, client: object, calls: OutwardCalls, only: Collection[str]) -> None:
        self._client, self._calls, self._only = client, calls, only

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._client, name)
        if name.startswith("_") or isinstance(value, type):
            return value
        if callable(value):
            return self._calls._watched(name, value) if not self._only or name in self._only else value  # noqa: SLF001
        return _WatchedClient(value, self._calls, self._only) if hasattr(value, "__dict__") else value
