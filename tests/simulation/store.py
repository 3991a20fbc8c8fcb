"""A store in memory that hands the baton on before each operation, and that faults strike."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from threading import get_ident
from types import SimpleNamespace
from typing import Any, Final, TypeVar
from unittest.mock import patch

from icefloe.errors import TransientError
from icefloe.pipeline import pipeline_file
from icefloe.sinks import sink
from icefloe.sinks.sink import Sink
from icefloe.storage import location, requests
from icefloe.storage.dynamodb_store import CoordinatedStore
from icefloe.storage.requests import Requests
from icefloe.storage.store import KeyMissingError, RangeMissingError, Store, StoredObject, check_key
from simulation.scheduler import Actor, Fault
from simulation.world import ROOT, AnyHome, Home, Items, Objects, World
from support.sinks.index_sink import IndexSink
from support.sinks.memory_index import ConflictError, MissingIndexError

__all__ = ["Killed", "Process", "SimulatedStore", "in_one_thread", "with_index"]

Answer = TypeVar("Answer")
_WRITES: Final = frozenset(["put", "create", "delete", "bulk", "replace", "create_index", "delete_index"])


class Killed(BaseException):
    """The process is killed: nothing it does from now on has an effect."""


@dataclass(slots=True, eq=False)
class Process:
    """One process of an actor; after a kill the actor begins another one.

    Attributes:
        is_dead: True once it was killed.
    """

    actor: Actor
    world: World
    is_dead: bool = False

    def open_store(
        self,
        url: str,
        *,
        options: Mapping[str, str] | None = None,  # noqa: ARG002 - nothing is secret here
        requests: Requests | None = None,  # noqa: ARG002 - nothing is counted
    ) -> Store:
        """See `open_store`."""
        if self.world.homes is None:
            return SimulatedStore(self, url, AnyHome(self.world))
        table, objects = Items(self.world.homes), Objects(self.world.homes)
        return CoordinatedStore(SimulatedStore(self, url, table), SimulatedStore(self, url, objects))

    def do(
        self,
        operation: str,
        key: str,
        effect: Callable[[], Answer],
        *,
        past: Callable[[], Answer] | None = None,
        is_outward: bool = False,
    ) -> Answer:
        """Does an operation when the actor gets the baton, unless a fault strikes.

        Args:
            operation: name of a method of the store.
            key: whole key.
            effect: applies the operation and returns its answer.
            past: returns a stale answer; None if there is none.
            is_outward: see `Decisions.at`.
        """
        world = self.world
        if get_ident() != self.actor.thread.ident:
            # A thread of a library, for which the actor waits: it holds the actor's baton.
            return effect()
        if self.is_dead:
            raise Killed
        fault = world.scheduler.yield_at(self.actor, is_outward=is_outward)
        world.come_due()
        if fault is None:
            answer = effect()
            world.note(self.actor.name, operation, key, _brief(answer), None)
            return answer
        assert isinstance(fault, Fault)
        return self._struck(fault, operation, key, effect, past)

    def _struck(
        self, fault: Fault, operation: str, key: str, effect: Callable[[], Answer], past: Callable[[], Answer] | None
    ) -> Answer:
        world = self.world
        if fault is Fault.DAMAGED:
            world.do_damage()
            answer = effect()
        elif fault is Fault.STALE and past is not None:
            answer = past()
        elif fault is Fault.RESENT and operation == "create":
            effect()
            world.note(self.actor.name, operation, key, False, fault)
            return False  # type: ignore[return-value]
        else:
            world.note(self.actor.name, operation, key, None, fault)
            if fault in (Fault.LOST, Fault.KILLED_AFTER):
                effect()
            if fault in (Fault.KILLED, Fault.KILLED_AFTER):
                self.is_dead = True
                raise Killed
            if fault is Fault.DELAYED and operation in _WRITES:
                world.delay(effect)
            raise TransientError(f"the simulated store did not {operation} {key}: {fault}")
        world.note(self.actor.name, operation, key, _brief(answer), fault)
        return answer


class SimulatedStore(Store):
    """The part of the world's store below a URL, as one process sees it.

    Args:
        process: the process.
        url: of a folder of the store.
        home: keeps the values.
    """

    def __init__(self, process: Process, url: str, home: Home) -> None:
        self._process = process
        self._home = home
        self._world = process.world
        self._url = url
        self._prefix = url.removeprefix(ROOT).lstrip("/") + "/"

    @property
    def url(self) -> str:
        return self._url

    def child(self, prefix: str) -> Store:
        return SimulatedStore(self._process, f"{self._url}/{prefix.removesuffix('/')}", self._home)

    def get(self, key: str) -> bytes:
        whole = self._whole(key)
        return self._process.do("get", whole, lambda: self._found(whole))

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        whole = self._whole(key)

        def cut() -> list[bytes]:
            data = self._found(whole)
            if any(stop > len(data) for _, stop in ranges):
                raise RangeMissingError(f"{whole} was cut", url=self._url, key=key, size_bytes=len(data))
            return [data[start:stop] for start, stop in ranges]

        return self._process.do("get_ranges", whole, cut)

    def put(self, key: str, data: bytes | Path) -> None:
        whole, content, name = self._whole(key), _content(data), self._process.actor.name
        self._process.do("put", whole, lambda: self._home.write(whole, content, by=name))

    def create(self, key: str, data: bytes | Path) -> bool:
        whole, content, name = self._whole(key), _content(data), self._process.actor.name
        return self._process.do("create", whole, lambda: self._add(whole, content, name))

    def size(self, key: str) -> int | None:
        whole = self._whole(key)

        def measured() -> int | None:
            data = self._home.find(whole)
            return None if data is None else len(data)

        return self._process.do("size", whole, measured)

    def delete(self, keys: Iterable[str]) -> None:
        """Deletes values key by key, so that a kill may leave some."""
        name = self._process.actor.name
        for key in keys:
            whole = self._whole(key)
            self._process.do("delete", whole, partial(self._home.write, whole, None, by=name))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        folder = self._prefix + (prefix.removesuffix("/") + "/" if prefix else "")

        def listed(sizes: Mapping[str, int]) -> list[StoredObject]:
            self._world.listed.add(folder)
            return [
                StoredObject(
                    key=key.removeprefix(self._prefix),
                    size_bytes=size_bytes,
                    modified=self._world.now(self._world.modified[key]),
                )
                for key, size_bytes in sizes.items()
                if key.startswith(folder)
            ]

        return iter(
            self._process.do(
                "list",
                folder,
                lambda: listed(self._home.sizes()),
                past=lambda: listed(self._home.past_sizes()),
            )
        )

    def _found(self, whole: str) -> bytes:
        data = self._home.find(whole)
        if data is None:
            raise KeyMissingError.of(ROOT, whole)
        return data

    def _add(self, whole: str, data: bytes, name: str) -> bool:
        if self._home.find(whole) is not None:
            return False
        self._home.write(whole, data, by=name)
        return True

    def _whole(self, key: str) -> str:
        return self._prefix + _checked(key)


_checked = lru_cache(maxsize=50_000)(check_key)


def _content(data: bytes | Path) -> bytes:
    return data if isinstance(data, bytes) else data.read_bytes()


def _brief(answer: object) -> object:
    """An answer as the log has it: without content and sizes, which depend on clocks."""
    if isinstance(answer, bool) or answer is None:
        return answer
    return f"{len(answer)} listed" if isinstance(answer, list) else "found"


_CALLS: Final = frozenset(
    ["bulk", "create_index", "delete_index", "get", "index_names", "replace", "scan"],
)


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Lets a process be one thread as long as the context lasts, so that it hands the baton on at each request."""

    def in_this_thread(call: Callable[[Any], object], items: Iterable[Any], **_: object) -> list[object]:
        return [call(item) for item in items]

    # Creates at once wait for each other.
    with patch.object(requests, "map_in_threads", in_this_thread), patch.object(location, "_one_wins", lambda *_: True):
        yield


@contextmanager
def with_index() -> Iterator[None]:
    """Lets pipelines deliver to ``sink: {type: index}`` as long as the context lasts."""
    # Asked for each batch that is opened, and answered from the file system otherwise.
    found = SimpleNamespace(load=lambda: _sink)
    with ExitStack() as stack:
        for module in (sink, pipeline_file):
            stack.enter_context(patch.object(module, "find_sink", lambda _: found))
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
