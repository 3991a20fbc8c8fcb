"""A sink that takes a whole batch: a table in memory whose commits name the head that they were made from."""

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.sink import PartDelivery, Sink, SupersededError
from support.sinks.rows_of_keys import final_rows, refuse_other, selected

__all__ = ["Head", "MemoryTable", "TableSink"]


class MovedError(Exception):
    """Another commit came first."""


class Head(NamedTuple):
    number: int
    rows: Mapping[str, Mapping[str, Any]]
    properties: Mapping[str, Any]


class MemoryTable:
    """Rows by key and properties, replaced by one commit at a time."""

    def __init__(self) -> None:
        self._head = Head(0, {}, {})
        self._lock = Lock()

    def load(self) -> Head:
        return self._head

    def commit(self, head: Head) -> None:
        """Puts a head in the place of the one before it."""
        with self._lock:
            if head.number != self._head.number + 1:
                raise MovedError
            self._head = head


class TableSink(Sink):
    keyed: ClassVar[bool] = True
    commits_once: ClassVar[bool] = True

    def __init__(self, table: MemoryTable) -> None:
        self._table = table

    @property
    def url(self) -> str:
        return "memory://table"

    def check(self) -> None:
        self._load()

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:
        head = self._load()
        if not takes_over:
            refuse_other(head.properties, origin)
        if head.properties.get("owner") != origin.owner and not only_looks:
            self._commit(head, head.rows, {"owner": origin.owner, "done": -1})

    def begin(self, batch: ProvenBatch) -> Mapping[str, Any]:
        if not batch.identity:
            raise TerminalError("this table needs an identity")
        properties = self._load().properties
        refuse_other(properties, batch.origin)
        if properties["done"] > batch.batch_number and not batch.is_replay:
            raise SupersededError("a later batch is there", url=self.url, batch_number=batch.batch_number)
        return {}

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:  # noqa: ARG002
        head = self._load()
        done = head.properties["done"]
        is_late = done > batch.batch_number and not batch.is_replay
        if head.properties["owner"] != batch.origin.owner or is_late:
            raise SupersededError("a later batch is there", url=self.url, batch_number=batch.batch_number)
        is_there = done >= batch.batch_number
        if not is_there:
            before = head.properties.get("loading", {}) if batch.is_load else head.rows
            changed = {**({} if batch.begins_anew else before), **final_rows(batch, [part])}
            rows = {key: row for key, row in changed.items() if row is not None}
            properties: dict[str, Any] = {"owner": batch.origin.owner, "done": batch.batch_number}
            if batch.is_load and not batch.ends_load:
                self._commit(head, head.rows, {**properties, "loading": rows})
            else:
                self._commit(head, rows, properties)
        return PartDelivery(number=0, rows=batch.rows, documents=batch.rows, repeated=batch.rows if is_there else 0)

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:
        pass

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        yield selected(self._load().rows.values(), schema, keys)

    def close(self) -> None:
        pass

    def _load(self) -> Head:
        try:
            return self._table.load()
        except ConnectionError as error:
            raise TransientError("the catalog did not answer") from error

    def _commit(self, head: Head, rows: Mapping[str, Mapping[str, Any]], properties: Mapping[str, Any]) -> None:
        try:
            self._table.commit(Head(head.number + 1, rows, properties))
        except (ConnectionError, MovedError) as error:
            raise TransientError("the commit may not have counted") from error
