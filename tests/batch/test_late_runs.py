"""Runs that come too late: they end well, leave nothing behind, and what an operator edits counts at the next try."""

import shutil
from dataclasses import replace

import pytest

from icefloe.batch.context.batch_folder import load_plan
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.batch.plan_document import Plan
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError
from icefloe.storage.store import Store
from support.pipelines.leftovers import left_in_shuffle
from support.pipelines.workshop import OpenBatch, Workshop


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    workshop.append(range(20))
    workshop.deliver()
    workshop.update([1], value=2.0)
    return workshop.open()


def test_a_map_task_that_goes_on_after_cleanup_takes_back_what_it_writes(workshop: Workshop, batch: OpenBatch) -> None:
    late, inputs = batch.running, batch.inputs
    store = late.folder.store
    documents = {stored.key: store.get(stored.key) for stored in store.list("tasks")}
    with late.fenced():
        batch.deliver()
        # Past its first look at the checkpoint it writes whatever it has to write.
        for key, data in documents.items():
            store.put(key, data)
        write_map_output(replace(inputs, folder=late.folder), 0)
        assert left_in_shuffle(workshop.storage)
    with pytest.raises(TerminalError, match="committed already"), late.fenced():
        write_map_output(inputs, 0)
    assert left_in_shuffle(workshop.storage) == []


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("takes_over", [False, True])
def test_a_checkpoint_that_lost_its_owners_goes_on_with_its_id(
    workshop: Workshop, is_open: bool, takes_over: bool
) -> None:
    workshop.append(range(10))
    workshop.deliver()
    checkpoint = workshop.folder / "storage/checkpoints/events"
    checkpoint_id = workshop.session().checkpoint.look().checkpoint_id
    workshop.append([20])
    if is_open:
        workshop.open()
    shutil.rmtree(checkpoint / "owners")
    prepared = open_and_plan(replace(workshop.session(), writer=Writer(owner="us"), takes_over=takes_over))
    assert prepared.plan is not None
    assert prepared.plan.checkpoint_id == checkpoint_id
    assert workshop.session().checkpoint.look().checkpoint_id == checkpoint_id


def test_a_run_of_an_earlier_life_of_the_checkpoint_cannot_commit_in_the_new_one(workshop: Workshop) -> None:
    workshop.append(range(10))
    earlier = workshop.open()
    shutil.rmtree(workshop.folder / "storage/checkpoints")
    again = workshop.set(sink={"type": "files", "path": f"file://{workshop.folder}/anew"}).open()
    with pytest.raises(TerminalError, match="the checkpoint was deleted and made again meanwhile"):
        earlier.run_route().commit()
    assert again.deliver().batch.counts["insert"] == 10


def test_a_backfill_belongs_to_the_owner_of_its_pipeline(workshop: Workshop) -> None:
    head = workshop.append(range(10))
    ours = replace(workshop.session(), writer=Writer(owner="us"))
    open_and_plan(ours)
    theirs = replace(workshop.session(), writer=Writer(owner="them"))
    with pytest.raises(TerminalError, match="belongs to owner us"):
        open_and_plan(theirs, RequestedRange(up_to_snapshot_id=head))
    assert open_and_plan(ours, RequestedRange(up_to_snapshot_id=head)).plan is not None


def test_a_backfill_whose_plan_goes_as_another_run_finishes_it_is_done(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = RequestedRange(up_to_snapshot_id=workshop.append(range(10)))
    other = workshop.open(request)

    def overtaken(store: Store) -> Plan:
        monkeypatch.undo()
        other.deliver()
        return load_plan(store)

    monkeypatch.setattr("icefloe.batch.plan.make_plan.load_plan", overtaken)
    found = open_and_plan(workshop.session(), request)
    assert found.report is not None
    assert found.plan is None
