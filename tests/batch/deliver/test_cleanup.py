from pathlib import Path

import pytest

from icefloe.batch.context.references import BatchReference
from icefloe.storage.local_store import unfinished_name
from support.fakes.stores import Fault, FaultyStore
from support.pipelines.leftovers import left_in_shuffle
from support.pipelines.workshop import OpenBatch, Workshop


def test_cleanup_takes_what_writers_began_and_listings_hide(workshop: Workshop, batch: OpenBatch) -> None:
    batch.commit()
    folder = Path(batch.store.url.removeprefix("file://"))
    path = folder / unfinished_name("0.0.zombie.data")
    path.touch()
    batch.clean_up()
    assert [found for found in folder.rglob("*") if found.is_file()] == []
    assert not path.exists()


def test_a_cleanup_that_was_interrupted_can_be_repeated(
    workshop: Workshop, batch: OpenBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch.commit()
    store = FaultyStore(batch.reference.batches, Fault(operation="delete", key="*/tasks/*", error=OSError("no")))
    with monkeypatch.context() as patched:
        patched.setattr(BatchReference, "batches", store)
        with pytest.raises(OSError, match="no"):
            batch.clean_up()
    assert any(path.name == "plan.json" for path in left_in_shuffle(workshop.storage))
    batch.clean_up()
    assert left_in_shuffle(workshop.storage) == []


def test_cleanup_takes_what_killed_runs_left_of_batches_before_and_nothing_of_those_after(
    workshop: Workshop, batch: OpenBatch
) -> None:
    batch.commit()  # and killed before cleanup
    workshop.update([2], value=3.0)
    after = workshop.open().run_route()
    after.commit()
    workshop.update([3], value=4.0)
    behind = workshop.open().run_route()
    open_batch = [path for path in left_in_shuffle(workshop.storage) if path.is_relative_to(behind.folder)]
    assert after.clean_up() > 10
    assert left_in_shuffle(workshop.storage) == open_batch
    behind.deliver()
    assert left_in_shuffle(workshop.storage) == []
