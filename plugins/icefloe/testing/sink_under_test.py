"""The parts of the suite that each subclass gives."""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import pyarrow as pa

from icefloe.changes.columns import ChangeColumns
from icefloe.errors import TransientError, one_line
from icefloe.sinks.sink import Sink
from icefloe.testing.processes import DeliveringProcess, OpenSink, OutwardCalls
from icefloe.testing.staged_history import NotConformingError, Row, StagedBatch, StagedHistory

_SHOWN: Final = 3


def require_content(sink: Sink, history: StagedHistory, *, without: Collection[int] = ()) -> None:
    """Compare what a sink holds with the table: the rows of a keyed sink, the changes per key of another.

    Args:
        without: ids of rows that the destination refused for good.
    """
    if sink.keyed:
        expected: dict[int, list[Row]] = {key: [row] for key, row in history.rows.items()}
        schema = history.shown
    else:
        expected = _by_id(history.changes)
        schema = ChangeColumns.schema(history.shown, with_batch=True)
    # Without an identity a log has no keys, and promises no order.
    if "id" not in schema.names or not history.identity:
        _require_rows(_read(sink, schema), [row for rows in expected.values() for row in rows], schema)
        return
    held = _by_id(row for row in _read(sink, schema) if _is_recent(row, history))
    for key in sorted({*held, *expected} - {*without}):
        # Columns that the destination does not show are not compared.
        wanted = [{name: row.get(name) for name in schema.names} for row in expected.get(key, [])]
        if held.get(key, []) != wanted:
            raise NotConformingError(
                f"the destination holds {_shown(held.get(key, []))} for id {key}; expected {_shown(wanted)}"
            )


def require_some(sink: Sink, history: StagedHistory, ids: Collection[int]) -> None:
    """Compare the rows or changes of some keys, read by these keys, with the table."""
    schema = history.shown if sink.keyed else ChangeColumns.schema(history.shown, with_batch=True)
    keys = pa.record_batch({"id": pa.array(sorted(ids), history.schema.field("id").type)})
    rows = [row for row in _read(sink, schema, keys) if _is_recent(row, history)]
    wanted = history.rows.values() if sink.keyed else history.changes
    _require_rows(rows, [row for row in wanted if row["id"] in ids], schema)


def _read(sink: Sink, schema: pa.Schema, keys: pa.RecordBatch | None = None) -> list[Row]:
    rows: list[Row] = []
    for batch in sink.read_back(schema, keys=keys):
        if not batch.schema.equals(schema):
            raise NotConformingError(f"read_back gives the columns {_line(batch.schema)}; expected {_line(schema)}")
        rows += batch.to_pylist()
    return rows


def _require_rows(rows: list[Row], wanted: list[Row], schema: pa.Schema) -> None:
    held, expected = (Counter(tuple(row.get(name) for name in schema.names) for row in each) for each in (rows, wanted))
    if held != expected:
        raise NotConformingError(
            f"the destination holds {_shown(list((held - expected).elements()))} in excess, and lacks "
            f"{_shown(list((expected - held).elements()))}"
        )


def _by_id(rows: Any) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["id"]].append(row)
    return dict(found)


def _is_recent(row: Mapping[str, Any], history: StagedHistory) -> bool:
    """False for changes before the last load, which a log may keep."""
    return ChangeColumns.BATCH not in row or row[ChangeColumns.BATCH] >= (history.load_batch_number or 0)


def _shown(rows: list[Any]) -> str:
    return f"{rows[:_SHOWN]} and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else str(rows)


def _line(schema: pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema)


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
        try:
            DeliveringProcess(self.opener(destination)).run(*batches, claims=claims, repeats=repeats)
        except TransientError:
            raise
        except Exception as error:
            numbers = ", ".join(str(staged.batch.batch_number) for staged in batches)
            raise NotConformingError(
                f"delivering batch {numbers} ended with {type(error).__name__}: {one_line(error)}"
            ) from error

    def begun(self, history: StagedHistory) -> Any:
        """A new destination with the first load of a history."""
        destination = self.new_destination()
        self.deliver(destination, *history.load(some_rows(9)), claims=True)
        return destination

    def require(self, destination: Any, history: StagedHistory, *, without: Collection[int] = ()) -> None:
        """Compare a destination with a table; see `require_content`."""
        sink = self.open_sink(destination, OutwardCalls())
        require_content(sink, history, without=without)
        sink.close()


def some_rows(count: int, *, word: str = "a") -> dict[int, Row]:
    """So many rows, with ids from 0."""
    return {key: {"word": f"{word}{key}", "number": key} for key in range(count)}


@contextmanager
def case(name: str) -> Iterator[None]:
    """Name the case in errors inside."""
    try:
        yield
    except NotConformingError as error:
        raise NotConformingError(f"{name}: {error}") from error
    except Exception as error:
        raise NotConformingError(f"{name}: {type(error).__name__}: {one_line(error)}") from error


def require_error(
    kinds: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object], expectation: str
) -> None:
    """Raise unless a call raises one of these errors."""
    try:
        call()
    except kinds:
        return
    except Exception as error:
        raise NotConformingError(f"{type(error).__name__}: {one_line(error)}; expected {expectation}") from error
    raise NotConformingError(f"nothing was raised; expected {expectation}")
