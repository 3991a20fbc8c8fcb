"""Batches that an older release opened: coalesce finds the rows whose identity changed, in one process."""

from collections.abc import Callable

import pytest

from batch.reduce.changed_keys import damaged, edited, flip, require_resumed, require_selected, run
from icefloe.batch.batch_keys import identity_moves_key
from icefloe.batch.context.batch_folder import BatchFileMissingError
from icefloe.batch.context.map_inputs import MapInputs
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.reduce.moves_of_older_batches import load_identity_moves
from icefloe.batch.reduce.repair import UnreliableStoreError
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.errors import TerminalError
from icefloe.flow import Phase
from icefloe.shuffle.reduce_ids import reduce_ids
from support.pipelines.transfers import data_in_the_storage
from support.pipelines.workshop import Workshop


@pytest.fixture(autouse=True)
def _without_hash_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans as releases made them that kept no hash rows."""
    monkeypatch.setattr("icefloe.batch.plan.make_plan.hash_partition_count", lambda _: 0)


def test_a_batch_of_an_older_release_is_finished_in_its_way(workshop: Workshop) -> None:
    batch = edited(workshop).open()
    assert b"hash_partitions" not in batch.store.get("plan.json")
    run(batch)
    require_selected(workshop, batch)
    records = batch.batch_folder.map_outputs.records(range(batch.plan.num_map_tasks))
    assert {record.hash_partitions for record in records} == {0}
    assert verify_batches(workshop.session()).is_equal


@data_in_the_storage
def test_a_block_that_proves_damaged_while_identities_are_compared_is_made_again(workshop: Workshop) -> None:
    batch = edited(workshop).open()
    batch.run(Phase.SHUFFLE_WRITE)
    damaged(batch, 1)
    assert batch.coalesce().epoch == 1
    damaged(batch, 0)
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    require_selected(workshop, batch)
    records = batch.batch_folder.map_outputs.records(range(batch.plan.num_map_tasks))
    assert [record.generation for record in records][:2] == [1, 1]
    assert verify_batches(workshop.session()).is_equal


@data_in_the_storage
def test_damage_that_comes_back_is_an_unreliable_store(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = edited(workshop).open()
    batch.run(Phase.SHUFFLE_WRITE)

    def written_badly(inputs: MapInputs, map_id: int, *, attempt: str) -> None:
        write_map_output(inputs, map_id, attempt=attempt)
        damaged(batch, map_id)

    monkeypatch.setattr("icefloe.batch.reduce.coalesce_map_outputs.write_map_output", written_badly)
    damaged(batch, 1)
    with pytest.raises(UnreliableStoreError):
        batch.coalesce()


def test_coalesce_can_be_run_again_and_completes_what_is_missing(workshop: Workshop) -> None:
    batch = edited(workshop).open()
    batch.run(Phase.SHUFFLE_WRITE)
    coalesced = batch.coalesce()
    before = workshop.stored_objects()
    assert batch.coalesce() == coalesced
    assert workshop.stored_objects() == before
    batch.store.delete([identity_moves_key(0)])
    with pytest.raises(TerminalError, match=r"reidentified/00000\.block, with .* is missing: run coalesce again$"):
        batch.run(Phase.SHUFFLE_READ)
    batch.coalesce()
    assert workshop.stored_objects().items() >= before.items()
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    require_selected(workshop, batch)


@pytest.mark.parametrize("damage", [flip, lambda _: b"", lambda content: content[:-1]], ids=["flip", "empty", "cut"])
def test_a_damaged_document_of_a_range_is_named_and_made_again(
    workshop: Workshop, damage: Callable[[bytes], bytes]
) -> None:
    batch = edited(workshop).open()
    batch.run(Phase.SHUFFLE_WRITE)
    plan = batch.coalesce().plan
    [held, *_] = [
        each.range_id for each in plan.ranges if len(load_identity_moves(batch.batch_folder, each.range_id).weights)
    ]
    key = identity_moves_key(held)
    batch.store.put(key, damage(batch.store.get(key)))
    with pytest.raises(BatchFileMissingError, match=rf"{key}, with the rows .* is damaged: run coalesce again$"):
        batch.run(Phase.SHUFFLE_READ)
    batch.coalesce()
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    require_selected(workshop, batch)


def test_a_batch_is_resumed_between_the_phases(workshop: Workshop) -> None:
    edited(workshop)
    first = workshop.open()
    first.run(Phase.SHUFFLE_WRITE)
    first.coalesce()
    require_resumed(workshop, first)


def test_the_cancelled_rows_of_all_ranges_add_up_to_nothing(workshop: Workshop) -> None:
    batch = edited(workshop).open()
    batch.run(Phase.SHUFFLE_WRITE)
    plan = batch.coalesce().plan
    found = [load_identity_moves(batch.batch_folder, each.range_id) for each in plan.ranges]
    assert len(plan.ranges) > 1
    assert sum(abs(each.weights).sum() for each in found) == 2 * 10
    assert sum(each.weights.sum() for each in found) == 0
    assert sum(each.row_hashes.signed_sum(each.weights) for each in found) % (1 << 128) == 0


def test_ranges_of_many_partitions_get_their_own_rows(workshop: Workshop) -> None:
    batch = edited(workshop, shuffle={"map_task_bytes": 1, "partitions": 64, "target_size_bytes": 1 << 20}).open()
    batch.run(Phase.SHUFFLE_WRITE)
    plan = batch.coalesce().plan
    assert any(each.stop - each.start > 1 for each in plan.ranges)
    for each in plan.ranges:
        hashes = load_identity_moves(batch.batch_folder, each.range_id).identity_hashes
        assert set(reduce_ids(hashes, plan.num_partitions).tolist()) <= set(range(each.start, each.stop))
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    require_selected(workshop, batch)
    assert verify_batches(workshop.session()).is_equal
