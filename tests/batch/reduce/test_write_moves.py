"""Identifier columns that are not selected: what one identity loses and another gets is no change."""

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.expressions import In

from batch.reduce.changed_keys import MOVED, damaged, edited, flip, require_selected, run, types_of
from icefloe.batch.plan_document import moves_key
from icefloe.batch.reduce.coalesce_map_outputs import BatchExtents, ReduceInputGoneError
from icefloe.batch.reduce.moves import load_moves, write_moves
from icefloe.batch.reduce.read_range import read_range
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.flow import Phase
from icefloe.shuffle.blocks import HashRows, reduce_ids
from icefloe.shuffle.coalesce import CoalescePlan
from support.pipelines.transfers import data_in_the_storage
from support.pipelines.workshop import OpenBatch, Workshop
from support.tables.events import rows


@pytest.fixture(autouse=True)
def _many_hash_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash partition for about two rows; ranges of one byte then make a task of each."""
    monkeypatch.setattr("icefloe.batch.plan.make_plan._ROWS_PER_HASH_PARTITION", 2)


def with_moves(batch: OpenBatch) -> CoalescePlan:
    """Runs the batch until its moves files are written."""
    batch.run(Phase.SHUFFLE_WRITE)
    coalesced = batch.coalesce()
    for each in coalesced.plan.hash_ranges:
        write_moves(batch.batch_folder, each.range_id, epoch=coalesced.epoch)
    return coalesced.plan


def moves_of(batch: OpenBatch, range_id: int) -> list[HashRows]:
    return [*load_moves(batch.batch_folder, BatchExtents(batch.batch_folder, 0), range_id)]


def test_a_changed_key_with_equal_selected_columns_is_no_change(workshop: Workshop) -> None:
    batch = edited(workshop).open()
    run(batch)
    changes = require_selected(workshop, batch)
    assert types_of(changes) == {"UPDATE_BEFORE": 10, "UPDATE_AFTER": 10}
    assert changes.column_names[-2:] == ["value", "word"]
    assert verify_batches(workshop.session()).is_equal


def test_net_changes_compare_the_ends(workshop: Workshop) -> None:
    edited(workshop, changes="net")
    workshop.table.overwrite(
        rows(range(30, 35)), overwrite_filter=In(term="id", literals=[n + MOVED for n in range(30, 35)])
    )
    workshop.update([0, 2], value=1.0)
    batch = workshop.open()
    run(batch)
    changes = require_selected(workshop, batch, net=True)
    assert types_of(changes) == {"UPDATE_BEFORE": 8, "UPDATE_AFTER": 8}
    assert verify_batches(workshop.session()).is_equal


@data_in_the_storage
def test_a_block_that_proves_damaged_before_the_ranges_is_made_again(workshop: Workshop) -> None:
    batch = edited(workshop).open()
    batch.run(Phase.SHUFFLE_WRITE)
    assert batch.coalesce().epoch == 0
    # The last block is one of hash rows.
    damaged(batch, 1, lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    require_selected(workshop, batch)
    records = batch.batch_folder.map_outputs.records(range(batch.plan.num_map_tasks))
    assert [record.generation for record in records][:2] == [0, 1]
    assert verify_batches(workshop.session()).is_equal


@pytest.mark.slow
@pytest.mark.parametrize("damage", [lambda content: content[:16] + flip(content[16:]), lambda content: content[:40]])
def test_a_moves_file_that_a_range_finds_damaged_is_made_again(
    workshop: Workshop, damage: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is damaged after its own task has looked at it."""
    batch = edited(workshop).open()
    key = moves_key(with_moves(batch).hash_ranges[0].range_id)
    tried: list[int] = []

    def read_late(*arguments: Any, **options: Any) -> object:
        if not tried:
            for each in batch.store.list("moves"):
                content = batch.store.get(each.key)
                batch.store.put(each.key, bytes(byte ^ 1 for byte in content))
            batch.store.put(key, damage(batch.store.get(key)))
        tried.append(arguments[2])
        return read_range(*arguments, **options)

    monkeypatch.setattr("icefloe.batch.phases.read_range", read_late)
    batch.run(Phase.SHUFFLE_READ)
    assert len(tried) > len(set(tried))
    batch.commit()
    require_selected(workshop, batch)


def test_a_range_says_which_moves_file_is_gone(workshop: Workshop) -> None:
    batch = edited(workshop).open()
    plan = with_moves(batch)
    batch.store.delete([moves_key(plan.hash_ranges[0].range_id)])
    with pytest.raises(
        ReduceInputGoneError,
        match=r"moves/\d{5}\.moves, which range \d+ needs, is gone or damaged.*writes it once more$",
    ):
        moves_of(batch, 0)


def test_ranges_of_many_partitions_get_their_own_rows(workshop: Workshop) -> None:
    batch = edited(workshop, shuffle={"map_task_bytes": 1, "partitions": 64, "target_size_bytes": 1 << 20}).open()
    plan = with_moves(batch)
    assert any(each.stop - each.start > 1 for each in plan.ranges)
    for each in plan.ranges:
        hashes = RowHashes.concat(moves.identity_hashes for moves in moves_of(batch, each.range_id))
        assert set(reduce_ids(hashes, plan.num_partitions).tolist()) <= set(range(each.start, each.stop))
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    require_selected(workshop, batch)
    assert verify_batches(workshop.session()).is_equal
