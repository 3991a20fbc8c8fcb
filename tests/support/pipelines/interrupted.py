"""Commands and runs that are killed at a chosen write to any store, in this process.

A place is a number: places 1 and 2 are right before and right after the first write, 3 and 4 are around the second.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from icefloe.storage.object_store import ObjectStore

__all__ = ["Killed", "killed_at"]

_WRITES: Final = ("create", "put", "delete")
_READS: Final = ("get", "get_ranges", "size", "list")


class Killed(BaseException):
    """The process is dead: no store takes anything from it any more."""


@contextmanager
def killed_at(place: int) -> Iterator[list[str]]:
    """Kills what runs inside at a place; yields the writes that were done or begun, which is shorter if it ended."""
    seen: list[str] = []
    is_dead = False

    def watch(name: str, whole: Callable[..., Any]) -> Callable[..., Any]:
        def watched(store: ObjectStore, *arguments: Any, **options: Any) -> Any:
            nonlocal is_dead
            if is_dead:
                raise Killed
            if name in _READS:
                return whole(store, *arguments, **options)
            for moment in ("before", "after"):
                if moment == "after":
                    answer = whole(store, *arguments, **options)
                seen.append(f"{moment} {name} {store.url} {arguments[0]}")
                if len(seen) == place:
                    is_dead = True
                    raise Killed
            return answer

        return watched

    with pytest.MonkeyPatch.context() as patched:
        for name in (*_WRITES, *_READS):
            patched.setattr(ObjectStore, name, watch(name, getattr(ObjectStore, name)))
        yield seen
