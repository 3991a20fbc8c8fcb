"""A batch that is open is planned again: after a kill, or if its plan or its table lost something."""

import shutil

import pytest

from icefloe.batch.plan.batch_preview import BatchPreview
from icefloe.batch.upkeep.abandoned_batch import AbandonedBatch
from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import NotAnAncestorError
from support.pipelines.workshop import Workshop


def test_a_plan_that_was_not_finished_is_written_again(workshop: Workshop) -> None:
    workshop.append(range(10))
    batch = workshop.open()
    batch.store.delete(["plan.json"])
    again = workshop.open()
    assert again.plan.spec.steps == batch.plan.spec.steps
    assert again.plan.map_task_bytes == batch.plan.map_task_bytes
    again.deliver()


def test_an_open_batch_whose_snapshot_expired_before_it_was_planned_names_the_way_out(workshop: Workshop) -> None:
    first = workshop.append(range(10))
    workshop.deliver()
    expired = workshop.append(range(10, 20))
    opened = workshop.open()
    table = workshop.table.refresh()
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    workshop.append(range(20, 23))
    table.refresh().maintenance.expire_snapshots().by_id(expired).commit()
    # With its plan the batch may end well: nobody is told to give it up.
    with pytest.raises(NotAnAncestorError) as previewed:
        BatchPreview.of(workshop.session(), None, cores=1)
    assert "abandon" not in previewed.value.sentence
    opened.store.delete(["plan.json"])
    way_out = rf"snapshot {expired}: .* batch 1 is open and has no plan: .* `icefloe abandon events`"
    for _ in range(2):
        with pytest.raises(NotAnAncestorError, match=way_out):
            workshop.prepare()
    end = AbandonedBatch.find(workshop.session())
    assert end is not None
    end.make()
    workshop.open().deliver()
    assert workshop.changes(2)["id"].to_pylist() == [20, 21, 22]


@pytest.mark.parametrize("edited", ["changelog.path", "storage"])
def test_a_batch_without_a_plan_whose_folder_of_changes_was_edited_names_both_folders(
    workshop: Workshop, edited: str
) -> None:
    workshop.append(range(10))
    opened = workshop.set(changes="upsert").open()
    opened.store.delete(["plan.json"])
    other = f"file://{workshop.folder}/other"
    if edited == "storage":
        workshop.set(storage=other, checkpoint=f"file://{workshop.storage}/checkpoints/events")
    else:
        workshop.set(changelog={"path": other})
    with pytest.raises(TerminalError) as refused:
        workshop.prepare()
    assert refused.value.sentence.startswith(
        f"batch 0 of events was opened with its changes in file://{workshop.storage}/staged/events, but changelog.path "
        f"or storage leads to {other}"
    )
    assert refused.value.sentence.endswith(" now: restore changelog.path or storage until the batch is done")
    restored = workshop.set(storage=f"file://{workshop.storage}", checkpoint=None, changelog=None).open()
    assert restored.plan.digest == opened.plan.digest


@pytest.mark.parametrize(
    ("found", "changed"),
    [
        (b'"id": 3', b'"id": 7'),  # the column would come without its values
        (b'"type": "string"', b'"type": "binary"'),
        (b'"route": "insert_only"', b'"route": "shuffle"'),
        (b'"crc32": ', b'"crc32": 1'),
    ],
)
def test_a_plan_that_still_has_a_meaning_but_another_one_is_never_run(
    workshop: Workshop, found: bytes, changed: bytes
) -> None:
    workshop.append(range(10))
    batch = workshop.open()
    document = batch.store.get("plan.json")
    assert document.count(found) == 1
    batch.store.put("plan.json", document.replace(found, changed))
    sentence = r"plan\.json does not match its checksum: it was damaged; delete everything below \S+ and run again: "
    with pytest.raises(TerminalError, match=sentence):
        workshop.open()
    with pytest.raises(TerminalError, match=sentence):
        batch.run_route()
    shutil.rmtree(batch.folder)
    workshop.deliver()
    assert workshop.changes(0).num_rows == 10


def test_a_folder_that_lost_a_task_or_the_meaning_of_its_plan_says_how_to_plan_it_again(workshop: Workshop) -> None:
    workshop.append(range(10))
    batch = workshop.open()
    store = batch.store
    remedy = f"delete everything below {store.url} and run again: the same range is planned again"
    [task] = [found.key for found in store.list("tasks")]
    document = store.get(task)
    store.put(task, document.replace(b"record_count", b"rEcord_count"))
    with pytest.raises(TerminalError, match=rf"{task} differs from the plan of its batch: .*; {remedy}$"):
        batch.run_route()
    store.delete([task])
    with pytest.raises(TerminalError, match=rf"{task} is gone, but the plan of batch 0 of events names it: {remedy}$"):
        batch.run_route()
    store.put("plan.json", b"{")
    with pytest.raises(TerminalError, match=rf"damaged; .*; use that release, or {remedy}$"):
        workshop.open()
    shutil.rmtree(store.url.removeprefix("file://"))
    workshop.open().deliver()
    assert workshop.changes(0).num_rows == 10
