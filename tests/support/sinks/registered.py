"""Pipelines that deliver to sinks in memory: ``sink: {type: index | log, server: NAME}``."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from icefloe.sinks.sink import Sink
from support.sinks.index_sink import IndexSink
from support.sinks.log_sink import LogSink
from support.sinks.memory_index import MemoryIndex
from support.sinks.memory_log import MemoryLog

__all__ = ["INDICES", "LOGS", "registered_sinks"]

INDICES: defaultdict[str, MemoryIndex] = defaultdict(MemoryIndex)
LOGS: defaultdict[str, MemoryLog] = defaultdict(MemoryLog)
"""The servers by name, while `registered_sinks` is open."""


class _Registered:
    """Stands in for an entry point, of which only name and factory count."""

    def __init__(self, name: str, factory: Callable[[Mapping[str, Any]], Sink]) -> None:
        self.name, self._factory = name, factory

    def load(self) -> Callable[..., Sink]:
        return lambda options, **_: self._factory(options)


@contextmanager
def registered_sinks(**further: Callable[[Mapping[str, Any]], Sink]) -> Iterator[None]:
    """Registers the sinks as another package does.

    Args:
        further: more of them, by ``sink.type``; each makes a sink of the other keys of ``sink``.
    """
    factories = {
        "index": lambda options: IndexSink(INDICES[options.get("server", "")]),
        "log": lambda options: LogSink(LOGS[options.get("server", "")]),
        **further,
    }

    def entry_points(*, group: str, name: str | None = None) -> list[_Registered]:
        assert group == "icefloe.sinks"
        return [_Registered(each, factory) for each, factory in factories.items() if name in (None, each)]

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr("icefloe.pipeline.settings.entry_points", entry_points)
        yield
    INDICES.clear()
    LOGS.clear()
