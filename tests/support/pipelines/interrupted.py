"""Commands and runs that are killed or paused at a chosen write to any store, in this process.

A place is a number: places 1 and 2 are right before and right after the first write, 3 and 4 are around the second.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import pytest

from icefloe.storage.object_store import ObjectStore
from support.pipelines.workshop import Workshop
from support.tiers import places

__all__ = ["Killed", "KilledPlace", "Paused", "killed_at", "killed_everywhere"]

_WRITES: Final = ("create", "put", "delete")
_READS: Final = ("get", "get_ranges", "size", "list")
_PATIENCE_SECONDS: Final = 60.0
_MOST_PLACES: Final = 200


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


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledPlace:
    """A place at which a command was killed, and the writes up to it."""

    place: int
    writes: list[str]


def killed_everywhere(workshop: Workshop, command: Callable[[], object]) -> Iterator[KilledPlace]:
    """The pipeline after kills of a command, each time from the same state, until no place is left.

    One of three places is tried, which are before and after writes by turns, or every one; see `places`.
    """
    kept = [workshop.folder / name for name in ("storage", "changes")]
    saved = Path(f"{workshop.folder}.saved")
    for each in filter(Path.exists, kept):
        shutil.copytree(each, saved / each.name)
    for place in takewhile(lambda place: place < _MOST_PLACES, places(3)):
        with killed_at(place) as writes:
            try:
                command()
            except Killed:
                pass
            else:
                assert place > 2, "the command writes nothing"
                return
        yield KilledPlace(place=place, writes=writes)
        for each in kept:
            shutil.rmtree(each, ignore_errors=True)
            if (saved / each.name).exists():
                shutil.copytree(saved / each.name, each)
    raise AssertionError("the command writes without end")


class Paused:
    """A run in a thread of its own that pauses at a place until it is told to go on.

        with Paused(run, place=3) as paused:
            ...                                  # others work meanwhile
        paused.answer, paused.error              # how the run ended

    `is_reached` says whether the run came to the place at all.
    """

    def __init__(self, run: Callable[..., object], *arguments: object, place: int) -> None:
        self.error: BaseException | None = None
        self.answer: Any = None
        self.where = ""
        self.is_reached = False
        self._place, self._seen, self._lock = place, 0, threading.Lock()
        self._told, self._go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(run, *arguments), daemon=True)
        self._patched = pytest.MonkeyPatch()

    def __enter__(self) -> "Paused":
        for name in ("create", "put"):
            self._patched.setattr(ObjectStore, name, self._watch(name, getattr(ObjectStore, name)))
        self._thread.start()
        assert self._told.wait(_PATIENCE_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._go_on.set()
        self._thread.join(_PATIENCE_SECONDS)
        self._patched.undo()
        assert not self._thread.is_alive()

    def _run(self, run: Callable[..., object], *arguments: object) -> None:
        try:
            self.answer = run(*arguments)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        finally:
            self._told.set()

    def _watch(self, name: str, whole: Callable[..., Any]) -> Callable[..., Any]:
        def watched(store: ObjectStore, key: str, *arguments: Any) -> Any:
            self._pass(f"before {name} {store.url}/{key}")
            answer = whole(store, key, *arguments)
            self._pass(f"after {name} {store.url}/{key}")
            return answer

        return watched

    def _pass(self, where: str) -> None:
        with self._lock:
            if self._told.is_set():  # others write now, and the run too when it goes on
                return
            self._seen += 1
            if self._seen != self._place:
                return
            self.is_reached, self.where = True, where
            self._told.set()
        assert self._go_on.wait(_PATIENCE_SECONDS)
