"""Processes that deliver proven batches, ended or stopped at any of their calls."""

import inspect
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from threading import Event, Lock
from typing import Any, Final, TypeAlias

import pyarrow as pa

from icefloe.errors import TransientError
from icefloe.sinks.batch_to_deliver import Origin, StagedPart
from icefloe.sinks.sink import PartDelivery, Sink
from icefloe.testing.staged_history import NotConformingError, Row, StagedBatch, through_json

_SECONDS: Final = 120
"""A test that forgets a stopped process must end."""
_TRIES: Final = 20


class ProcessEndedError(BaseException):
    """The process was killed. No ``except Exception`` catches it: killed processes run no handler."""


class Fault(StrEnum):
    """The fault that strikes one outward call."""

    # After a call, the process is as it is before the next one.
    KILLED = "killed before"
    LOST_REQUEST = "cut off before"
    LOST_REPLY = "cut off after"
    STOPPED = "stopped before"


@dataclass
class OutwardCalls:
    """The outward calls of one simulated process, and the fault that strikes one of them.

    A killed process makes no further call: each raises `ProcessEndedError`, also in handlers of the sink.

    Attributes:
        place: number of the call that is struck, from 0.
        halt: called by a stopped process; returns when the process is to go on.
        names: of the calls so far.
    """

    fault: Fault | None = None
    place: int = 0
    lost_connection: Callable[[], Exception] = field(default=ConnectionError, kw_only=True)
    halt: Callable[[], object] = field(default=lambda: None, kw_only=True)
    names: list[str] = field(default_factory=list, init=False)
    _is_ended: bool = field(default=False, init=False)
    _when_killed: list[Callable[[], object]] = field(default_factory=list, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def watch(
        self, client: object, *, only: Collection[str] = (), when_killed: Callable[[], object] | None = None
    ) -> Any:
        """The client, or one function, with its calls counted here and struck by the fault.

        Args:
            client: any object whose methods go out to the destination, or a function. Its attributes, such as
                ``client.indices``, are watched too.
            only: names of the methods that go out; empty: each public method does.
            when_killed: what the system does when the process is killed, such as closing a connection.
        """
        if when_killed is not None:
            self._when_killed.append(when_killed)
        return self._watched("call", client) if inspect.isroutine(client) else _WatchedClient(client, self, only)

    @property
    def where(self) -> str:
        """The place of the fault, for people."""
        name = self.names[self.place] if self.place < len(self.names) else "none"
        return f"{self.fault} outward call {self.place} ({name})"

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: object, **named: object) -> Any:
            is_struck = self._begin(name)
            if is_struck and self.fault is Fault.KILLED:
                self._is_ended = True
                for end in self._when_killed:
                    end()
                raise ProcessEndedError
            if is_struck and self.fault is Fault.LOST_REQUEST:
                raise self.lost_connection()
            if is_struck and self.fault is Fault.STOPPED:
                self.halt()
            # A reply may be an exception of the client, such as that something is not there.
            try:
                return call(*arguments, **named)
            finally:
                if is_struck and self.fault is Fault.LOST_REPLY:
                    raise self.lost_connection()

        return watched

    def _begin(self, name: str) -> bool:
        with self._lock:
            if self._is_ended:
                raise ProcessEndedError
            self.names.append(name)
            return self.fault is not None and len(self.names) == self.place + 1


class _WatchedClient:
    def __init__(self, client: object, calls: OutwardCalls, only: Collection[str]) -> None:
        self._client, self._calls, self._only = client, calls, only

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._client, name)
        if name.startswith("_") or isinstance(value, type):
            return value
        if callable(value):
            return self._calls._watched(name, value) if not self._only or name in self._only else value  # noqa: SLF001
        return _WatchedClient(value, self._calls, self._only) if hasattr(value, "__dict__") else value


OpenSink: TypeAlias = Callable[[OutwardCalls], Sink]
"""Opens a sink at one destination, as a new process does."""


class DeliveringProcess:
    """A driver and its workers: each part has its own sink, as in a process of its own.

    Attributes:
        deliveries: results by batch and part, which are not delivered again.
    """

    def __init__(self, open_sink: OpenSink, calls: OutwardCalls | None = None) -> None:
        self.calls = calls or OutwardCalls()
        self.deliveries: dict[tuple[int, int], PartDelivery] = {}
        self._open_sink = open_sink

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:
        """Claim the destination."""
        with self._opened() as sink:
            sink.claim(origin, takes_over=takes_over, only_looks=only_looks)

    def run(self, *batches: StagedBatch, claims: bool = False, repeats: bool = False) -> None:
        """Deliver whole batches; those that are over are skipped, as in a pipeline.

        Args:
            claims: True: the destination is claimed first.
            repeats: True: batches that are over are delivered again.
        """
        with self._opened() as driver:
            for staged in batches:
                if staged.ended.is_set() and not repeats:
                    continue
                if claims:
                    driver.claim(staged.batch.origin, only_looks=True)
                    driver.claim(staged.batch.origin)
                staged.record(driver.begin(staged.batch))
                self.deliver(staged)
                driver.finish(staged.batch, staged.begun, self.results(staged))
                staged.ended.set()

    def deliver(self, staged: StagedBatch) -> None:
        """Deliver the parts of a begun batch that have no result."""
        batch = staged.batch
        with self._opened() as sink:
            parts = [StagedPart.whole(staged.parts)] if sink.commits_once else staged.parts
        for part in parts:
            if (batch.batch_number, part.number) not in self.deliveries:
                with self._opened() as worker:
                    delivery = worker.deliver(batch, staged.begun, part)
                if (delivery.number, delivery.rows) != (part.number, part.rows):
                    raise NotConformingError(
                        f"the delivery of part {part.number} of {part.rows} rows says that it is part "
                        f"{delivery.number} of {delivery.rows} rows; expected the number and the rows of the part"
                    )
                kept = through_json(asdict(delivery), f"the result of part {part.number}")
                self.deliveries[batch.batch_number, part.number] = PartDelivery(**kept)

    def read_back(self, schema: pa.Schema) -> list[Row] | None:
        """All rows of a keyed sink; None of another sink, which is not read."""
        with self._opened() as sink:
            if not sink.keyed:
                return None
            return [row for rows in sink.read_back(schema) for row in rows.to_pylist()]

    def results(self, staged: StagedBatch) -> list[PartDelivery]:
        """The results of a batch by part."""
        found = [each for (number, _), each in self.deliveries.items() if number == staged.batch.batch_number]
        return sorted(found, key=lambda each: each.number)

    @contextmanager
    def _opened(self) -> Iterator[Sink]:
        sink = self._open_sink(self.calls)
        try:
            yield sink
        except Exception:
            sink.close()
            raise
        else:
            sink.close()


class StoppedProcess:
    """A process in its own thread, stopped before one outward call.

    Attributes:
        end: its result or error.
    """

    def __init__(self, open_sink: OpenSink, place: int, work: Callable[[DeliveringProcess], Any]) -> None:
        """Wait until the process stops, or ends before."""
        self.calls = OutwardCalls(Fault.STOPPED, place, halt=self._halt)
        self._news, self._open = Event(), Event()
        self.end = ThreadPoolExecutor(1).submit(work, DeliveringProcess(open_sink, self.calls))
        self.end.add_done_callback(lambda _: self._news.set())
        if not self._news.wait(_SECONDS):
            raise TimeoutError(f"a process neither ended nor came to its outward call in {_SECONDS} s")

    def passed_by(self, others: Callable[[], object]) -> BaseException | None:
        """Others work while it is stopped, then it ends; returns its error.

        If it holds a lock, others meet a `TransientError` and work again after its end.
        """
        try:
            others()
        except TransientError:
            self._finish()
            others()
        finally:
            self._open.set()
        return self._finish()

    def _finish(self) -> BaseException | None:
        self._open.set()
        return self.end.exception(_SECONDS)

    def _halt(self) -> None:
        self._news.set()
        self._open.wait(_SECONDS)


def error_at_end(open_sink: OpenSink, work: Callable[[DeliveringProcess], object]) -> Exception | None:
    """The error of a process, which tries again after a `TransientError`."""
    error: Exception | None = None
    for _ in range(_TRIES):
        try:
            work(DeliveringProcess(open_sink))
        except TransientError as passing:
            error = passing
        except Exception as found:  # noqa: BLE001 - handed to the case
            return found
        else:
            return None
    return error
