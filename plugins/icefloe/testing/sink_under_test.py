"""The parts of the suite that differ from sink to sink: a subclass gives them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from icefloe.errors import TransientError, one_line
from icefloe.sinks.sink import Sink
from icefloe.testing.held_content import require_content
from icefloe.testing.not_conforming import NotConformingError
from icefloe.testing.outward_calls import OutwardCalls
from icefloe.testing.processes import DeliveringProcess, OpenSink
from icefloe.testing.staged_history import Row, StagedBatch, StagedHistory


class SinkUnderTest(ABC):
    """A sink, its destinations, and the faults that its destinations can have.

    A destination is any value: a name in a server, a path, a server of its own.
    """

    @abstractmethod
    def new_destination(self) -> Any:
        """A destination that holds nothing; another one at each call."""

    @abstractmethod
    def open_sink(self, destination: Any, calls: OutwardCalls) -> Sink:
        """A sink as a new process opens it; ``calls.watch(client)`` takes the place of its client.

        Its patience should be short, because cases wait for it.
        """

    def foreign_write(self, destination: Any, number: int) -> bool:
        """Write something that is not icefloe's, as another program might; False: it has one writer.

        Args:
            destination: where to.
            number: counts the writes from 0, for another key each time.
        """
        return False

    def poison_row(self, key: int) -> Row | None:
        """Columns of a row that the destination refuses for good; None: there is no such row.

        Args:
            key: its ``id``.
        """
        return None

    @contextmanager
    def refusing(self, destination: Any, times: int | None) -> Iterator[bool]:
        """Make the destination refuse writes for now, as if it had too much work; False: it never does.

        Args:
            destination: the destination.
            times: number of the next requests that are refused; None: all of them until the context ends.
        """
        yield False

    def lost_connection(self) -> Exception:
        """The error that the client raises if its connection breaks."""
        return ConnectionError("the connection was lost")

    def places(self, calls: int) -> Iterable[int]:
        """The outward calls to strike, of so many. A slow server may take fewer of them."""
        return range(calls)

    def opener(self, destination: Any) -> OpenSink:
        """Opens sinks at a destination."""
        return partial(self.open_sink, destination)

    def deliver(self, destination: Any, *batches: StagedBatch, claims: bool = False, repeats: bool = False) -> None:
        """Deliver batches by a new process without faults; see `DeliveringProcess.run`.

        Raises:
            TransientError: a process that is stopped holds a lock at the destination.
            NotConformingError: any other error.
        """
        try:
            DeliveringProcess(self.opener(destination)).run(*batches, claims=claims, repeats=repeats)
        except TransientError:
            raise
        except Exception as error:
            numbers = ", ".join(str(staged.batch.batch_number) for staged in batches)
            raise NotConformingError(
                f"delivering batch {numbers} ended with {type(error).__name__}: {one_line(error)}"
            ) from error

    def begun(self, history: StagedHistory, rows: int = 9) -> Any:
        """A new destination that holds the first load of a history."""
        destination = self.new_destination()
        self.deliver(destination, *history.load(some_rows(rows)), claims=True)
        return destination

    def require(
        self,
        destination: Any,
        history: StagedHistory,
        *,
        without: Collection[int] = (),
        among: Collection[int] | None = None,
    ) -> None:
        """Compare the content of a destination with a table; see `require_content`."""
        sink = self.open_sink(destination, OutwardCalls())
        require_content(sink, history, without=without, among=among)
        sink.close()


def some_rows(count: int, *, word: str = "a") -> dict[int, Row]:
    """So many rows, with ids from 0."""
    return {key: {"word": f"{word}{key}", "number": key} for key in range(count)}


@contextmanager
def case(name: str) -> Iterator[None]:
    """Name the case in the error of whatever breaks in it.

    Raises:
        NotConformingError: the case failed.
    """
    try:
        yield
    except NotConformingError as error:
        raise NotConformingError(f"{name}: {error}") from error
    except Exception as error:
        raise NotConformingError(f"{name}: {type(error).__name__}: {one_line(error)}") from error


def require_error(
    kinds: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object], expectation: str
) -> None:
    """Raise unless a call raises an error of one of these kinds.

    Raises:
        NotConformingError: says what was expected.
    """
    try:
        call()
    except kinds:
        return
    except Exception as error:
        raise NotConformingError(f"{type(error).__name__}: {one_line(error)}; expected {expectation}") from error
    raise NotConformingError(f"nothing was raised; expected {expectation}")
