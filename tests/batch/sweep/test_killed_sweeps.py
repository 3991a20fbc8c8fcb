"""A sweep that is killed anywhere, runs twice at once, or meets a batch at work, deletes the same and no more."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock, Thread
from typing import Any

import pytest

from icefloe.batch.open.next_range import RequestedRange
from icefloe.storage import object_store
from icefloe.storage.object_store import ObjectStore
from icefloe.storage.probe import CLOCK_FOLDER
from support.pipelines.leftovers import left_in_shuffle
from support.pipelines.sweeping import survey_of, swept
from support.pipelines.workshop import Workshop

WRITES = ("create", "put", "_delete")


class KilledError(BaseException):
    """The process is gone."""


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A batch that has ended, one that is open, a backfill that has ended, and a stray file at each of two sinks."""
    made = Workshop.create(tmp_path)
    head = made.append(range(20))
    made.open(RequestedRange(up_to_snapshot_id=head)).run_route().commit()
    made.open().run_route().commit()
    made.append([30])
    made.open().run_route()
    for folder in [*(made.folder / "changes").rglob("batch=0")]:
        (folder / "part-00099.parquet").write_bytes(b"of a zombie")
    return made


@contextmanager
def killed_at(nth: int, when: str, patched: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing reaches the stores any more from right before, or right after, the nth write or deletion on."""
    seen, is_dead = 0, False

    def watched(whole: Callable[..., Any]) -> Callable[..., Any]:
        def call(store: ObjectStore, *arguments: Any) -> Any:
            nonlocal seen, is_dead
            seen += 1
            if is_dead or (seen == nth and when == "before"):
                is_dead = True
                raise KilledError
            answer = whole(store, *arguments)
            if seen == nth:
                is_dead = True
                raise KilledError
            return answer

        return call

    # Each key is deleted by a request of its own, so that a sweep can be killed between any two.
    patched.setattr(object_store, "_KEYS_PER_DELETE", 1)
    for name in WRITES:
        patched.setattr(ObjectStore, name, watched(getattr(ObjectStore, name)))
    yield


def contents(workshop: Workshop) -> dict[str, bytes]:
    """Everything in storage and sinks, but the remains of a killed look at the clock, which go by their age."""
    return {path: data for path, data in workshop.stored_objects().items() if CLOCK_FOLDER not in path}


def restore(workshop: Workshop, backup: Path) -> None:
    for name in ("storage", "changes"):
        shutil.rmtree(workshop.folder / name)
        shutil.copytree(backup / name, workshop.folder / name)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.slow
def test_a_sweep_that_was_killed_anywhere_is_completed_by_the_next(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, when: str
) -> None:
    backup = tmp_path_factory.mktemp("backup")
    for name in ("storage", "changes"):
        shutil.copytree(workshop.folder / name, backup / name)
    full = contents(workshop)
    assert swept(workshop.storage) > 10
    undisturbed = contents(workshop)
    assert undisturbed.items() <= full.items()
    nth, was_killed = 0, True
    while was_killed:
        nth, was_killed = nth + 1, False
        restore(workshop, backup)
        with monkeypatch.context() as patched, killed_at(nth, when, patched):
            try:
                swept(workshop.storage)
            except KilledError:
                was_killed = True
        assert undisturbed.items() <= contents(workshop).items() <= full.items(), nth
        swept(workshop.storage)
        # A file at the sink of a backfill stays if the sweep died after it deleted the marker.
        assert contents(workshop) == undisturbed, nth
    assert nth > 15
    assert workshop.deliver() is not None


def test_two_sweeps_at_once_delete_what_one_does(workshop: Workshop) -> None:
    surveys = [survey_of(workshop.storage) for _ in range(2)]
    ends: list[Any] = []
    threads = [Thread(target=lambda survey=each: ends.append(survey.delete())) for each in surveys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [problems for _, problems in ends] == [(), ()]
    assert swept(workshop.storage) == 0
    assert workshop.deliver() is not None
    assert left_in_shuffle(workshop.storage) == []


@pytest.mark.slow
def test_a_sweep_at_any_moment_of_a_run_takes_nothing_that_the_run_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each write of two batches and a backfill, with every file old as soon as it is written."""
    workshop = Workshop.create(tmp_path)
    sweeping, sweeps = RLock(), 0

    def sweep(key: str) -> None:
        nonlocal sweeps
        # A trial lives for a moment: no sweep takes files that are younger than an hour, as the parser has it.
        if "_probe-" in key or sweeping._is_owned():  # type: ignore[attr-defined]
            return
        with sweeping:
            sweeps += 1
            swept(workshop.storage, older_than_seconds=-60.0)

    def watched(whole: Callable[..., Any]) -> Callable[..., Any]:
        def call(store: ObjectStore, key: str, data: Any) -> Any:
            sweep(key)
            return whole(store, key, data)

        return call

    head = workshop.append(range(20))
    with monkeypatch.context() as patched:
        for name in ("create", "put"):
            patched.setattr(ObjectStore, name, watched(getattr(ObjectStore, name)))
        for request in (None, RequestedRange(up_to_snapshot_id=head), None):
            batch = workshop.open(request)
            batch.deliver()
            changes = workshop.changes(batch.plan.batch_number, backfill_id=batch.plan.backfill_id)
            workshop.require_exact(batch.plan, changes)
            workshop.update([1], value=3.0)
    assert sweeps > 40
    swept(workshop.storage)
    assert left_in_shuffle(workshop.storage) == []
