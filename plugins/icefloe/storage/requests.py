"""Requests to stores: their numbers, and several at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from threading import Lock
from time import monotonic
from typing import Any, Final, Literal, TypeVar

from icefloe.documents import Document
from icefloe.errors import TransientError
from icefloe.patience import map_in_threads

__all__ = ["RequestTotals", "Requests", "map_parallel"]

RequestKind = Literal["get", "get_ranges", "put", "create", "head", "delete", "list"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTotals(Document):
    """Requests by kind. A value written in parts counts once, and so does a request that the client repeats.

    Attributes:
        get_ranges: parts of a value, neighbours fetched as one.
        delete: requests of up to a thousand values each.
        list: requests of up to a thousand names each.
        failed: unanswered, after all retries of the client.
        again: sent again after a lost or contradictory answer.
        found_there: existed already when they were to be created.
        races_lost: those of ``found_there`` with a range's results from another attempt.
    """

    get: int = 0
    get_ranges: int = 0
    put: int = 0
    create: int = 0
    head: int = 0
    delete: int = 0
    list: int = 0
    failed: int = 0
    again: int = 0
    found_there: int = 0
    races_lost: int = 0
    seconds: float = 0.0

    def __add__(self, other: "RequestTotals") -> "RequestTotals":
        return RequestTotals(
            **{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(RequestTotals)}
        )

    @property
    def sent(self) -> int:
        """Requests of every kind."""
        return self.get + self.get_ranges + self.put + self.create + self.head + self.delete + self.list


class Requests:
    """Counts the requests of several threads to stores."""

    def __init__(self) -> None:
        self._lock = Lock()
        # By the names of totals. Adding two of them would touch every kind at each request.
        self._counts: dict[str, Any] = {}

    def taken(self) -> RequestTotals:
        """Totals since the last call. Resets the counter, so do not call it from two places."""
        with self._lock:
            taken, self._counts = self._counts, {}
        return RequestTotals(**taken)

    @contextmanager
    def counted(self, kind: RequestKind, number: int = 1) -> Iterator[None]:
        """Counts the requests made inside."""
        started, failed = monotonic(), 0
        try:
            yield
        except TransientError:
            failed = 1
            raise
        finally:
            self.add({kind: number, "failed": failed, "seconds": monotonic() - started})

    def add(self, counts: Mapping[str, float]) -> None:
        """Counts more requests, by the names of totals."""
        with self._lock:
            for name, count in counts.items():
                self._counts[name] = self._counts.get(name, 0) + count


_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

AT_ONCE: Final = 8
"""A request waits for most of its time; more at once would only fill the queues of small stores."""


def map_parallel(call: Callable[[_Item], _Answer], items: Iterable[_Item], *, at_once: int = AT_ONCE) -> list[_Answer]:
    """The results of a call for each item, in their order; a single item takes no thread.

    Args:
        call: called in any thread; errors are raised as by `icefloe.patience.map_in_threads`.

    >>> map_parallel(str, range(3))
    ['0', '1', '2']
    """
    work = list(items)
    if at_once < 2 or len(work) < 2:
        return [call(item) for item in work]
    return map_in_threads(call, work, threads=at_once, name="icefloe-requests")
