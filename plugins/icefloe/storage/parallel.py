"""Requests that do not depend on each other, several at once."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from icefloe.threads import map_in_threads

__all__ = ["map_parallel"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")

AT_ONCE: Final = 8
"""A request waits for most of its time; more at once would only fill the queues of small stores."""


def map_parallel(
    call: Callable[[Item], Answer], items: Iterable[Item], *, at_once: int = AT_ONCE, name: str = "icefloe-requests"
) -> list[Answer]:
    """The results of a call for each item, in the order of the items; a single item takes no thread.

    Args:
        call: called in any thread. Its errors are raised as `icefloe.threads.map_in_threads` does.
        items: items to call it with.
        at_once: number of threads.
        name: prefix of the names of the threads, for stack dumps.

    >>> map_parallel(str, range(3))
    ['0', '1', '2']

    Raises:
        MemoryError: the system refused a thread, or memory for it.
    """
    work = list(items)
    if at_once < 2 or len(work) < 2:
        return [call(item) for item in work]
    return map_in_threads(call, work, threads=at_once, name=name)
