"""The index to which pipelines deliver: a server in memory that all processes share, asked one call at a time."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from icefloe.pipeline import pipeline_file
from icefloe.sinks import sink
from icefloe.sinks.sink import Sink
from simulation.store import Process
from support.sinks.index_sink import IndexSink
from support.sinks.memory_index import ConflictError, MissingIndexError

__all__ = ["with_index"]

_CALLS: Final = frozenset(
    ["bulk", "create_index", "delete_index", "get", "index_names", "replace", "scan"],
)


@contextmanager
def with_index() -> Iterator[None]:
    """Lets pipelines deliver to ``sink: {type: index}`` as long as the context lasts."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(sink, "_factory", lambda _: _sink))
        # Asked for each batch that is opened, and answered from the file system otherwise.
        stack.enter_context(patch.object(pipeline_file, "registered_sinks", lambda: {"index": None}))
        yield


def _sink(
    options: Mapping[str, Any],
    *,
    connection: Mapping[str, Any],
    open_store: Callable[..., Any],
) -> Sink:
    """The sink in the process whose stores are opened like that."""
    opener: Any = open_store
    return IndexSink(SimulatedIndex(opener.func.__self__))  # type: ignore[arg-type]


class SimulatedIndex:
    """The index as one process asks it: each call is an operation at which the baton is handed on."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _CALLS:
            raise AttributeError(name)
        return partial(self._ask, name)

    def _ask(self, name: str, *arguments: Any, **named: Any) -> Any:
        world, actor = self._process.world, self._process.actor.name

        def effect() -> Any:
            try:
                return world.ask_index(name, *arguments, by=actor, **named)
            except (ConflictError, MissingIndexError) as refusal:
                # A value, because its answer may be lost or come late, like any other.
                return refusal

        answer = self._process.do(name, f"index/{arguments[0] if arguments else ''}", effect, is_outward=True)
        if isinstance(answer, Exception):
            raise answer
        return answer
