"""Processes that deliver proven batches, as a run of a pipeline does, ended or stopped at any of their calls."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from threading import Event, Thread
from typing import Final, TypeAlias

import pyarrow as pa

from icefloe.errors import TransientError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.sink import PartDelivery, Sink
from icefloe.testing.not_conforming import NotConformingError
from icefloe.testing.outward_calls import Fault, OutwardCalls
from icefloe.testing.staged_history import Row, StagedBatch, through_json

OpenSink: TypeAlias = Callable[[OutwardCalls], Sink]
"""Opens a sink at one destination, as a new process does."""

_SECONDS: Final = 120
"""A test that forgets a stopped process must end."""
_TRIES: Final = 20


class DeliveringProcess:
    """A driver and its workers: each part is delivered by a sink that was opened for it, as in a process of its own.

    Attributes:
        calls: its outward calls.
        deliveries: results by batch and part. A batch that is run again skips the parts that have one.
    """

    def __init__(self, open_sink: OpenSink, calls: OutwardCalls | None = None) -> None:
        self.calls = calls or OutwardCalls()
        self.deliveries: dict[tuple[int, int], PartDelivery] = {}
        self._open_sink = open_sink

    def run(self, *batches: StagedBatch, claims: bool = False, repeats: bool = False) -> None:
        """Deliver whole batches, one after the other.

        Batches that are over by then are skipped, because no run of a pipeline begins them again.

        Args:
            batches: in the order of their numbers.
            claims: True if the destination is claimed first, as before the first batch of a pipeline.
            repeats: True: batches that are over are delivered again.
        """
        with self._opened() as driver:
            for staged in batches:
                if staged.ended.is_set() and not repeats:
                    continue
                if claims:
                    driver.refuse_other_owner(staged.batch.origin)
                    driver.claim(staged.batch.origin)
                staged.record(driver.begin(staged.batch))
                self.deliver(staged)
                driver.finish(staged.batch, staged.begun, self.results(staged))
                staged.ended.set()

    def deliver(self, staged: StagedBatch) -> None:
        """Deliver the parts that have no result yet, of a batch that was begun."""
        batch = staged.batch
        with self._opened() as sink:
            parts = [StagedPart.whole(staged.parts)] if sink.commits_once else staged.parts
        for part in parts:
            if (batch.batch_number, part.number) not in self.deliveries:
                with self._opened() as worker:
                    delivery = worker.deliver(batch, staged.begun, part)
                self._keep(batch, part.number, part.rows, delivery)

    def read_back(self, schema: pa.Schema) -> list[Row] | None:
        """All rows of a keyed sink, with these columns; None of another sink, which is not read."""
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
        """A sink that is closed at the end, unless the process is killed."""
        sink = self._open_sink(self.calls)
        try:
            yield sink
        except Exception:
            sink.close()
            raise
        else:
            sink.close()

    def _keep(self, batch: ProvenBatch, number: int, rows: int, delivery: PartDelivery) -> None:
        """Keep a result, as the document that a retry reads."""
        if (delivery.number, delivery.rows) != (number, rows):
            raise NotConformingError(
                f"the delivery of part {number} of {rows} rows says that it is part {delivery.number} of "
                f"{delivery.rows} rows; expected the number and the rows of the part"
            )
        kept = through_json(asdict(delivery), f"the result of part {number}")
        self.deliveries[batch.batch_number, number] = PartDelivery(**kept)


class StoppedProcess:
    """A process in a thread of its own that is stopped before one outward call, for as long as the case wants.

    Args:
        open_sink: opens its sinks.
        place: number of the call, from 0.
        work: what the process does.
    """

    def __init__(self, open_sink: OpenSink, place: int, work: Callable[[DeliveringProcess], object]) -> None:
        self.calls = OutwardCalls(Fault.STOPPED, place, halt=self._halt)
        self._news, self._open = Event(), Event()
        self._is_stopped = False
        self._error: Exception | None = None
        self._process = DeliveringProcess(open_sink, self.calls)
        self._thread = Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def is_stopped(self) -> bool:
        """Wait until the process is stopped or has ended; False if it has ended."""
        if not self._news.wait(_SECONDS):
            raise TimeoutError(f"a process neither ended nor came to its outward call in {_SECONDS} s")
        return self._is_stopped

    def finish(self) -> Exception | None:
        """Let the process go on to its end, and return its error."""
        self._open.set()
        self._thread.join(_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError(f"a process that was {self.calls.where} does not end in {_SECONDS} s")
        return self._error

    def passed_by(self, others: Callable[[], object]) -> Exception | None:
        """Others work while it is stopped, then it goes on to its end; returns its error.

        If it holds a lock at the destination, others meet a `TransientError` and work once more when it has ended.
        """
        try:
            others()
        except TransientError:
            error = self.finish()
            others()
            return error
        return self.finish()

    def _run(self, work: Callable[[DeliveringProcess], object]) -> None:
        try:
            work(self._process)
        except Exception as error:  # noqa: BLE001 - handed to the case
            self._error = error
        self._news.set()

    def _halt(self) -> None:
        self._is_stopped = True
        self._news.set()
        self._open.wait(_SECONDS)


def run_at_once(open_sink: OpenSink, work: Iterable[Callable[[DeliveringProcess], object]]) -> list[Exception | None]:
    """Processes that work at the same time, each again after a `TransientError` as a task is; their errors in order."""
    jobs = list(work)
    errors: list[Exception | None] = [None] * len(jobs)

    def run(number: int) -> None:
        for _ in range(_TRIES):
            try:
                jobs[number](DeliveringProcess(open_sink))
                errors[number] = None
            except TransientError as error:
                errors[number] = error
            except Exception as error:  # noqa: BLE001 - handed to the case
                errors[number] = error
                return
            else:
                return

    threads = [Thread(target=run, args=(number,), daemon=True) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_SECONDS)
        if thread.is_alive():
            raise TimeoutError(f"a process that delivers did not end within {_SECONDS} seconds")
    return errors
