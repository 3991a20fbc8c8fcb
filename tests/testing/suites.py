"""The suite over the sinks in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from icefloe.testing.conformance import SinkConformance
from icefloe.testing.processes import OutwardCalls
from support.sinks.index_sink import IndexSink
from support.sinks.log_sink import LogSink
from support.sinks.memory_index import POISON, MemoryIndex
from support.sinks.memory_log import MemoryLog
from support.sinks.table_sink import MemoryTable, TableSink

__all__ = ["IndexSuite", "LogSuite", "TableSuite"]


class _OverMemory(SinkConformance):
    sink: type[Any]

    def open_sink(self, destination: Any, calls: OutwardCalls) -> Any:
        return self.sink(calls.watch(destination))


class _Refusing(_OverMemory):
    @contextmanager
    def refusing(self, destination: Any) -> Iterator[bool]:
        destination.refusals = None
        yield True
        destination.refusals = 0


class IndexSuite(_Refusing):
    sink = IndexSink

    def new_destination(self) -> MemoryIndex:
        return MemoryIndex()

    def poison_row(self, key: int) -> dict[str, Any]:
        return {"word": POISON, "number": key}


class LogSuite(_Refusing):
    sink = LogSink

    def new_destination(self) -> MemoryLog:
        return MemoryLog()


class TableSuite(_OverMemory):
    sink = TableSink

    def new_destination(self) -> MemoryTable:
        return MemoryTable()
