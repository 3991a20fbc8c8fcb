import os
from dataclasses import replace
from pathlib import Path

import pytest

from batch.workshop import OpenBatch, Workshop
from fakes.stores import Fault, FaultyStore
from icefloe.batch.cleanup import clean_up
from icefloe.batch.context import PlanMissingError
from icefloe.batch.fenced_store import FencedStore
from icefloe.errors import TerminalError
from icefloe.storage.unfinished import open_unfinished


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    """Delivered and not committed."""
    workshop.append(range(20))
    workshop.deliver()
    workshop.update([1], value=2.0)
    return workshop.open().run_route()


def left_in_shuffle(workshop: Workshop) -> list[str]:
    return [path for path in workshop.stored_objects() if "/shuffle/events/" in path]


def test_cleanup_waits_for_the_commit(workshop: Workshop, batch: OpenBatch) -> None:
    before = workshop.stored_objects()
    with pytest.raises(TerminalError, match="batch 1 is not committed: its files are kept for the rerun"):
        batch.clean_up()
    assert workshop.stored_objects() == before
    batch.commit()
    assert batch.clean_up() > 5


def test_cleanup_leaves_nothing_of_the_batch_and_everything_of_the_output(workshop: Workshop, batch: OpenBatch) -> None:
    batch.commit()
    context = batch.context
    clean_up(context)
    assert left_in_shuffle(workshop) == []
    assert clean_up(context) == 0
    workshop.require_exact(batch.plan, workshop.changes(1))
    with pytest.raises(
        PlanMissingError, match=r"there is no plan at file://.*/shuffle/events/[0-9a-f]{32}/1/plan\.json"
    ):
        batch.reference.open()


def test_cleanup_takes_what_writers_began_and_listings_hide(workshop: Workshop, batch: OpenBatch) -> None:
    batch.commit()
    folder = Path(batch.context.store.url.removeprefix("file://"))
    descriptor, path = open_unfinished(folder, "0.0.zombie.data")
    (folder / "0.0.old.data#1").write_bytes(b"rows")
    try:
        clean_up(batch.context)
    finally:
        os.close(descriptor)
    assert [found for found in folder.rglob("*") if found.is_file()] == []
    assert not path.exists()


def test_a_cleanup_that_was_interrupted_can_be_repeated(workshop: Workshop, batch: OpenBatch) -> None:
    batch.commit()
    context = batch.context
    store = FaultyStore(context.store, Fault(operation="delete", key="tasks/*", error=OSError("no")))
    broken = replace(context, store=FencedStore(store))
    with pytest.raises(OSError, match="no"):
        clean_up(broken)
    assert any(path.endswith("plan.json") for path in left_in_shuffle(workshop))
    batch.clean_up()
    assert left_in_shuffle(workshop) == []
