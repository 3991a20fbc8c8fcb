"""Stores for tests: they count, fail, kill or forget at a chosen place, around any other store.

    store = FaultyStore(open_store("memory://x"), Fault(operation="create", key="commits/*", error=SystemExit(9)))

`child` works as on any store: the keys that a fault sees are whole.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from icefloe.errors import TransientError
from icefloe.storage.store import Store, StoredObject

__all__ = [
    "CountingStore",
    "Fault",
    "FaultyStore",
    "ForgetfulStore",
    "RacyStore",
    "WrappingStore",
    "flip_byte",
    "kill_process",
]


class WrappingStore(Store):
    """Passes every call on through `call`, which subclasses override."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def call(self, operation: str, key: str, run: Callable[[], Any]) -> Any:  # noqa: ARG002 - for subclasses
        return run()

    @property
    def url(self) -> str:
        return self.inner.url

    def get(self, key: str) -> bytes:
        return self.call("get", key, lambda: self.inner.get(key))

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self.call("get_ranges", key, lambda: self.inner.get_ranges(key, ranges))

    def put(self, key: str, data: bytes | Path) -> None:
        self.call("put", key, lambda: self.inner.put(key, data))

    def create(self, key: str, data: bytes | Path) -> bool:
        return self.call("create", key, lambda: self.inner.create(key, data))

    def size(self, key: str) -> int | None:
        return self.call("size", key, lambda: self.inner.size(key))

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.call("delete", key, partial(self.inner.delete, [key]))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        return self.call("list", prefix, lambda: self.inner.list(prefix))


class CountingStore(WrappingStore):
    """Counts the calls: ``calls`` by operation, ``keys`` by operation and key."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: Counter[str] = Counter()
        self.keys: Counter[tuple[str, str]] = Counter()

    def call(self, operation: str, key: str, run: Callable[[], Any]) -> Any:
        self.calls[operation] += 1
        self.keys[operation, key] += 1
        return run()


@dataclass(frozen=True, kw_only=True)
class Fault:
    """The fault, and its moment.

    Attributes:
        operation: the method's name; ``*`` for any.
        key: a shell pattern that the whole key matches.
        nth: of the matching calls, counted from 1; None for every one of them.
        is_after: whether the call has its effect first, so that only its answer is lost.
        error: what is raised; SystemExit ends a thread's or a process's work the orderly way.
        action: called instead of raising, e.g. `kill_process`, or a function that lets a rival in.
    """

    operation: str = "*"
    key: str = "*"
    nth: int | None = 1
    is_after: bool = False
    error: BaseException | None = None
    action: Callable[[], object] | None = None

    def strike(self) -> None:
        if self.action is not None:
            self.action()
        else:
            raise self.error or TransientError("the store failed because the test said so")


class FaultyStore(WrappingStore):
    """Fails as told; ``struck`` lists the calls that did, as (operation, key)."""

    def __init__(self, inner: Store, *faults: Fault) -> None:
        super().__init__(inner)
        self.struck: list[tuple[str, str]] = []
        self._faults = dict.fromkeys(faults, 0)
        self._lock = Lock()

    def call(self, operation: str, key: str, run: Callable[[], Any]) -> Any:
        due = self._due(operation, key)
        for fault in due:
            if not fault.is_after:
                fault.strike()
        answer = run()
        for fault in due:
            if fault.is_after:
                fault.strike()
        return answer

    def _due(self, operation: str, key: str) -> list[Fault]:
        due = []
        with self._lock:
            for fault in self._faults:
                if fault.operation in ("*", operation) and fnmatchcase(key, fault.key):
                    self._faults[fault] += 1
                    if fault.nth in (None, self._faults[fault]):
                        due.append(fault)
                        self.struck.append((operation, key))
        return due


class ForgetfulStore(WrappingStore):
    """Ignores create-if-absent, as some services do: every create succeeds."""

    def create(self, key: str, data: bytes | Path) -> bool:
        self.inner.put(key, data)
        return True


class RacyStore(WrappingStore):
    """Looks whether there is a value and then writes, as some gateways do: of creates at once several succeed.

    Args:
        inner: keeps the values.
        window_seconds: between look and write.
    """

    def __init__(self, inner: Store, window_seconds: float = 0.1) -> None:
        super().__init__(inner)
        self._window_seconds = window_seconds

    def create(self, key: str, data: bytes | Path) -> bool:
        if self.inner.size(key) is not None:
            return False
        time.sleep(self._window_seconds)
        self.inner.put(key, data)
        return True


def kill_process() -> None:
    """Ends this process with no chance to clean up."""
    os.kill(os.getpid(), signal.SIGKILL)


def flip_byte(store: Store, key: str, position: int) -> None:
    """Damages one byte of a value."""
    data = bytearray(store.get(key))
    data[position] ^= 0xFF
    store.put(key, bytes(data))
