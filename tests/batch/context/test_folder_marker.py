import shutil
from pathlib import Path

from icefloe.batch.context.batch_folder import FolderMarker
from icefloe.batch.open.next_range import RequestedRange
from icefloe.storage.location import open_store
from support.fakes.stores import CountingStore
from support.pipelines.workshop import Workshop

HERE = FolderMarker(checkpoint_id="ab", checkpoint_url="s3://lake/checkpoints/events", pipeline="events")


def marker_beside(folder: Path) -> FolderMarker | None:
    return FolderMarker.load(open_store(f"file://{folder.parent}"))


def test_the_folder_of_a_backfill_leads_to_the_checkpoint_of_the_backfill(workshop: Workshop) -> None:
    head = workshop.append(range(5))
    batch = workshop.open(RequestedRange(up_to_snapshot_id=head))
    marker = marker_beside(batch.folder)
    assert marker is not None
    assert marker.backfill_id == batch.plan.backfill_id
    assert marker.checkpoint_url == f"file://{workshop.storage}/checkpoints/events/backfills/{marker.backfill_id}"


def test_a_checkpoint_that_was_moved_is_named_at_its_new_place_although_its_batch_is_resumed(
    workshop: Workshop,
) -> None:
    workshop.append(range(5))
    batch = workshop.open()
    shutil.move(workshop.storage / "checkpoints/events", workshop.folder / "moved")
    resumed = workshop.set(checkpoint=f"file://{workshop.folder}/moved").open()
    assert resumed.folder == batch.folder
    marker = marker_beside(batch.folder)
    assert marker is not None
    assert marker.checkpoint_url == f"file://{workshop.folder}/moved"


def test_a_marker_that_is_there_is_read_and_not_written() -> None:
    store = CountingStore(open_store("memory://marked"))
    HERE.mark(store)
    HERE.mark(store)
    assert store.calls == {"get": 2, "put": 1}
