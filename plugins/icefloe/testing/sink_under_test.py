"""The parts of the suite that each subclass gives."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from icefloe.changes.columns import ChangeColumns
from icefloe.errors import one_line
from icefloe.sinks.sink import Sink
from icefloe.testing.processes import DeliveringProcess, OpenSink, OutwardCalls
from icefloe.testing.staged_history import NotConformingError, Row, StagedBatch, StagedHistory


def _by_id(rows: Iterable[Row], names: list[str], *, has_keys: bool) -> Mapping[int | None, list[Row]]:
    """Columns of the rows of each key in order; without keys, of all rows, sorted."""
    found: dict[int | None, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["id"] if has_keys else None].append({name: row.get(name) for name in names})
    return found if has_keys else {None: sorted(found[None], key=repr)}


class SinkUnderTest(ABC):
    """A sink, its destinations, and the faults that they can have.

    A destination is any value: a name in a server, a path, a server of its own.
    """

    @abstractmethod
    def new_destination(self) -> Any:
        """A new empty destination at each call."""

    @abstractmethod
    def open_sink(self, destination: Any, calls: OutwardCalls) -> Sink:
        """A sink as a new process opens it; ``calls.watch(client)`` takes the place of its client.

        Its patience should be short, because cases wait for it.
        """

    def poison_row(self, key: int) -> Row | None:
        """Columns of a row with this ``id`` that the destination refuses for good; None: there is no such row."""
        return None

    @contextmanager
    def refusing(self, destination: Any) -> Iterator[bool]:
        """Make the destination refuse all writes, as if it had too much work; False: it never does."""
        yield False

    def lost_connection(self) -> Exception:
        """The client's error for a broken connection."""
        return ConnectionError("the connection was lost")

    def places(self, calls: int) -> Iterable[int]:
        """The outward calls to strike, of so many. A slow server may take fewer."""
        return range(calls)

    def opener(self, destination: Any) -> OpenSink:
        """Opens sinks at a destination."""
        return partial(self.open_sink, destination)

    def deliver(self, destination: Any, *batches: StagedBatch, claims: bool = False, repeats: bool = False) -> None:
        """Deliver batches by a new process without faults; see `DeliveringProcess.run`."""
        DeliveringProcess(self.opener(destination)).run(*batches, claims=claims, repeats=repeats)

    def begun(self, history: StagedHistory) -> Any:
        """A new destination with the first load of a history."""
        destination = self.new_destination()
        with case("the first load"):
            self.deliver(destination, *history.load(some_rows(9)), claims=True)
        return destination

    def require(
        self,
        destination: Any,
        history: StagedHistory,
        *,
        ids: Collection[int] | None = None,
        without: Collection[int] = (),
    ) -> None:
        """Compare a destination with a table: the rows of a keyed sink, the changes per key of another.

        Args:
            ids: of the rows that are read and compared; None: all.
            without: ids of rows that the destination refused for good.
        """
        with closing(self.open_sink(destination, OutwardCalls())) as sink:
            schema = history.shown if sink.keyed else ChangeColumns.schema(history.shown, with_batch=True)
            keys = None if ids is None else pa.record_batch({"id": pa.array(sorted(ids), pa.int64())})
            rows: list[Row] = []
            for batch in sink.read_back(schema, keys=keys):
                if not batch.schema.equals(schema):
                    raise NotConformingError(f"read_back gives the columns {[*batch.schema]}; expected {[*schema]}")
                rows += batch.to_pylist()
            if history.changes and not sink.keyed:
                # A log may keep changes from before the last load.
                rows = [row for row in rows if row[ChangeColumns.BATCH] >= history.changes[0][ChangeColumns.BATCH]]
            table = history.rows.values() if sink.keyed else history.changes
            wanted = [row for row in table if ids is None or row["id"] in ids]
            # Without an identity a log has no keys, and promises no order.
            has_keys = "id" in schema.names and history.identity != ()
            held, expected = (_by_id(each, schema.names, has_keys=has_keys) for each in (rows, wanted))
            for key in {*held, *expected} - {*without}:
                if held.get(key) != expected.get(key):
                    raise NotConformingError(
                        f"the destination holds {held.get(key, [])} for id {key}; expected {expected.get(key, [])}"
                    )


def some_rows(count: int, *, word: str = "a") -> dict[int, Row]:
    """So many rows, with ids from 0."""
    return {key: {"word": f"{word}{key}", "number": key} for key in range(count)}


@contextmanager
def case(name: str, *, expects: type[Exception] | None = None) -> Iterator[None]:
    """Name the case in errors inside, unless it expects an error, which must come."""
    try:
        yield
    except NotConformingError as error:
        raise NotConformingError(f"{name}: {error}") from error
    except Exception as error:
        if expects is None or not isinstance(error, expects):
            raise NotConformingError(f"{name}: {type(error).__name__}: {one_line(error)}") from error
    else:
        if expects is not None:
            raise NotConformingError(f"{name}: nothing was raised; expected {expects.__name__}")


def require_no_error(found: BaseException | None, *, but: type[Exception] | tuple[type[Exception], ...]) -> None:
    """Raise the error of a process, if any, unless it may be."""
    if found is not None and not isinstance(found, but):
        raise found
