"""Documents of stores for a page that must not wait: short memory, deadlines, one look at a time for each."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from threading import Lock
from types import MappingProxyType
from typing import Any, Final

from icefloe.errors import IcefloeError, TransientError, one_line

__all__ = ["DocumentCache", "Found"]

_THREADS: Final = 16
_MOST_ENTRIES: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What looking for a document brought.

    Attributes:
        value: None where there is none; beside a sentence what was read before, if ever.
        sentence: why it could not be read, or is not known yet.
    """

    value: Any = None
    sentence: str | None = None


class DocumentCache:
    """Remembers what a look brought for some seconds; while a new look takes too long the last answer stands.

    A look that does not come back holds one of a few threads, never a second for the same document.

    Args:
        fresh_seconds: how long an answer counts.
        deadline_seconds: how long a call waits for all that it asks for; 0: for nothing, and nothing is said of looks
            that are under way.
        threads: how many looks are made at once in each lane.
    """

    def __init__(self, *, fresh_seconds: float, deadline_seconds: float, threads: int = _THREADS) -> None:
        self._fresh_seconds = fresh_seconds
        self._deadline_seconds = deadline_seconds
        self._threads = threads
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._lock = Lock()
        self._under_way: dict[str, Future[Found]] = {}
        self._known: dict[str, tuple[float, Found]] = {}

    def get(
        self, looks: Mapping[str, Callable[[], Any]], *, lanes: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, Found]:
        """What each look brings, by its key; several at once, none for longer than the deadline.

        Args:
            looks: each a call that may take long, or for ever.
            lanes: which store or catalog each asks, by its key; one that does not answer holds up its own lane alone.
        """
        futures = {key: self._look(key, look, lanes.get(key, "")) for key, look in looks.items()}
        waiting = {key: future for key, future in futures.items() if future is not None}
        wait(waiting.values(), timeout=self._deadline_seconds)
        return {key: self._answer(key, waiting.get(key)) for key in looks}

    def _look(self, key: str, look: Callable[[], Any], lane: str) -> Future[Found] | None:
        with self._lock:
            known = self._known.get(key)
            if known is not None and time.monotonic() - known[0] < self._fresh_seconds:
                return None
            future = self._under_way.get(key)
            if future is None:
                future = self._under_way[key] = self._pool(lane).submit(self._run, key, look)
            return future

    def _pool(self, lane: str) -> ThreadPoolExecutor:
        if lane not in self._pools:
            self._pools[lane] = ThreadPoolExecutor(self._threads, thread_name_prefix="icefloe-page")
        return self._pools[lane]

    def _run(self, key: str, look: Callable[[], Any]) -> Found:
        found = _found(look)
        with self._lock:
            before = self._known.pop(key, None)
            if before is not None and found.value is None and found.sentence is not None:
                found = replace(found, value=before[1].value)
            while len(self._known) >= _MOST_ENTRIES:
                self._known.pop(next(iter(self._known)))
            self._known[key] = (time.monotonic(), found)
            self._under_way.pop(key, None)
        return found

    def _answer(self, key: str, future: Future[Found] | None) -> Found:
        if future is not None and future.done():
            return future.result()
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            return known[1]
        seconds = self._deadline_seconds
        if not seconds:
            return Found()
        return Found(sentence=f"{key} did not answer within {seconds:g} seconds; the page looks again")


def _found(look: Callable[[], Any]) -> Found:
    try:
        return Found(value=look())
    except TransientError as error:
        return Found(sentence=f"{error.sentence}; the page looks again")
    except IcefloeError as error:
        return Found(sentence=error.sentence)
    except Exception as error:  # noqa: BLE001 - a store or catalog must not take the page along
        return Found(sentence=f"{type(error).__name__}: {one_line(error)}")
