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

__all__ = ["IndexSuite", "LogSuite", "WholeBatchSuite"]


class _OverMemory(SinkConformance):
    sink: type[Any]

    def open_sink(self, destination: Any, calls: OutwardCalls) -> Any:
        return self.sink(calls.watch(destination))

    @contextmanager
    def refusing(self, destination: Any) -> Iterator[bool]:
        destination.refusals = None
        yield True
        destination.refusals = 0


class IndexSuite(_OverMemory):
    sink = IndexSink

    def new_destination(self) -> MemoryIndex:
        return MemoryIndex()

    def poison_row(self, key: int) -> dict[str, Any]:
        return {"word": POISON, "number": key}


class LogSuite(_OverMemory):
    sink = LogSink

    def new_destination(self) -> MemoryLog:
        return MemoryLog()


class WholeBatchSink(IndexSink):
    commits_once = True


class WholeBatchSuite(IndexSuite):
    sink = WholeBatchSink
