"""Identifier columns that are not selected: what one identity loses and another gets is no change."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.expressions import In

from batch.reduce.changed_keys import (
    MOVED,
    SMALL,
    damaged,
    edited,
    flip,
    require_resumed,
    require_selected,
    run,
    types_of,
)
from icefloe.batch.batch_keys import moves_key
from icefloe.batch.reduce import cancelled_rows
from icefloe.batch.reduce.batch_extents import BatchExtents, ReduceInputGoneError
from icefloe.batch.reduce.moves import WeightedHashes, load_moves
from icefloe.batch.reduce.read_range import read_range
from icefloe.batch.reduce.write_moves import write_moves
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.flow import Phase
from icefloe.shuffle.coalesce import CoalescePlan
from icefloe.shuffle.partitions import reduce_ids
from support.pipelines.transfers import data_in_the_storage
from support.pipelines.workshop import InOrder, OpenBatch, Workshop
from support.tables.events import rows
from support.tiers import soak


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


def moves_of(batch: OpenBatch, range_id: int) -> WeightedHashes:
    return WeightedHashes.concat(list(load_moves(batch.batch_folder, BatchExtents(batch.batch_folder, 0), range_id)))


def test_a_changed_key_with_equal_selected_columns_is_no_change(workshop: Workshop) -> None:
    batch = edited(workshop).open()
    run(batch)
    changes = require_selected(workshop, batch)
    assert types_of(changes) == {"UPDATE_BEFORE": 10, "UPDATE_AFTER": 10}
    assert changes.column_names[-2:] == ["value", "word"]
    assert verify_batches(workshop.session()).is_equal


def test_the_rest_of_a_key_pairs_although_the_key_is_not_there(workshop: Workshop) -> None:
    workshop.set(columns=["value"], shuffle=SMALL)
    workshop.append([1, 2, 2, 3])
    workshop.deliver()
    workshop.replace(pa.concat_tables([rows([1], value=2.0), rows([2], value=3.0), rows([4], value=4.0)]))
    batch = workshop.open()
    run(batch)
    changes = workshop.changes(1)
    assert types_of(changes) == {"UPDATE_BEFORE": 2, "UPDATE_AFTER": 2, "DELETE": 2, "INSERT": 1}
    assert verify_batches(workshop.session()).is_equal


@pytest.mark.slow
@pytest.mark.parametrize(
    ("filter_text", "changes"),
    [("word != 'word 31'", "each"), ("id < 100 and value < 2.0", "net"), ("id < 100 and value < 2.0", "each")],
)
def test_with_a_filter_too(workshop: Workshop, filter_text: str, changes: str) -> None:
    batch = edited(workshop, filter=filter_text, changes=changes, columns=["word"]).open()
    run(batch)
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


@pytest.mark.parametrize("memory_bytes", [20_000, pytest.param(1, marks=pytest.mark.slow)])
def test_rows_beyond_memory_give_the_same_changes(
    tmp_path: Path, memory_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices of the row hashes, and of the identities within a reduce partition."""
    monkeypatch.setattr(cancelled_rows, "_LEAST_WAITING_ROWS", 3)
    delivered = []
    for memory in (1 << 30, memory_bytes):
        workshop = edited(Workshop.create(tmp_path / str(memory)), 300)
        batch = workshop.set(shuffle={"map_task_bytes": 1, "partitions": 4, "memory_bytes": memory}).open()
        run(batch)
        varying = ["_commit_snapshot_id", "_commit_timestamp"]
        delivered.append(require_selected(workshop, batch).drop_columns(varying))
    assert delivered[0] == delivered[1]


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


def test_hash_ranges_come_first_and_each_is_a_task(workshop: Workshop) -> None:
    batch = edited(workshop).open()
    batch.run(Phase.SHUFFLE_WRITE)
    plan, engine = batch.coalesce().plan, InOrder()
    assert len(plan.hash_ranges) > 4
    batch.run(Phase.SHUFFLE_READ, engine)
    assert engine.given == [[each.range_id for each in plan.hash_ranges], [each.range_id for each in plan.ranges]]
    assert batch.commit().ranges == len(plan.ranges)
    require_selected(workshop, batch)


def test_a_batch_whose_columns_show_the_identity_has_no_hash_rows(workshop: Workshop) -> None:
    batch = edited(workshop, columns=None).open()
    batch.run(Phase.SHUFFLE_WRITE)
    assert batch.plan.hash_partitions == 0
    assert batch.coalesce().plan.hash_ranges == ()


@pytest.mark.slow
@pytest.mark.parametrize("damage", [flip, lambda content: content[:-1]], ids=["flip", "cut"])
def test_a_damaged_moves_file_is_made_again(workshop: Workshop, damage: Callable[[bytes], bytes]) -> None:
    batch = edited(workshop).open()
    plan = with_moves(batch)
    keys = [moves_key(each.range_id) for each in plan.hash_ranges]
    written = {key: batch.store.get(key) for key in keys}
    for key in keys:
        batch.store.put(key, damage(written[key]))
    with_moves(batch)
    assert {key: batch.store.get(key) for key in keys} == written
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    require_selected(workshop, batch)


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


def test_a_late_attempt_writes_no_moves_file_again(workshop: Workshop) -> None:
    batch = edited(workshop).open()
    with_moves(batch)
    before = {each.key: each.modified for each in batch.store.list("moves")}
    with_moves(batch)
    assert {each.key: each.modified for each in batch.store.list("moves")} == before


def test_a_batch_is_resumed_between_the_phases(workshop: Workshop) -> None:
    edited(workshop)
    first = workshop.open()
    with_moves(first)
    require_resumed(workshop, first)


def test_ranges_of_many_partitions_get_their_own_rows(workshop: Workshop) -> None:
    batch = edited(workshop, shuffle={"map_task_bytes": 1, "partitions": 64, "target_size_bytes": 1 << 20}).open()
    plan = with_moves(batch)
    assert any(each.stop - each.start > 1 for each in plan.ranges)
    for each in plan.ranges:
        hashes = moves_of(batch, each.range_id).identity_hashes
        assert set(reduce_ids(hashes, plan.num_partitions).tolist()) <= set(range(each.start, each.stop))
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    require_selected(workshop, batch)
    assert verify_batches(workshop.session()).is_equal


@pytest.mark.slow
@pytest.mark.parametrize("changes", ["each", "net"])
@pytest.mark.parametrize("seed", [0, soak(1), soak(2), soak(3)])
def test_little_memory_delivers_the_same(tmp_path: Path, changes: str, seed: int) -> None:
    """Few values under many keys, changed at random: equal rows of many identities, removed here and added there."""
    delivered = []
    for name in ("hash ranges", "little memory"):
        # With so little memory, the copies of a row are cut by identity.
        memory = {"memory_bytes": 1} if name == "little memory" else {}
        shuffle = {**SMALL, **memory}
        workshop = Workshop.create(tmp_path / name).set(columns=["value"], changes=changes, shuffle=shuffle)
        shuffled = np.random.default_rng(seed)
        ids = shuffled.integers(0, 40, 80)
        workshop.table.append(some(ids, shuffled))
        workshop.deliver()
        for _ in range(3):
            workshop.table.overwrite(
                some(shuffled.integers(0, 40, 30), shuffled),
                overwrite_filter=In(term="id", literals=shuffled.choice(40, 15, replace=False).tolist()),
            )
        batch = workshop.open()
        assert batch.plan.hash_partitions
        run(batch)
        assert verify_batches(workshop.session()).is_equal
        delivered.append(workshop.changes(1).drop_columns(["_commit_snapshot_id", "_commit_timestamp"]))
    assert delivered[0].num_rows
    assert delivered[0] == delivered[1]


def some(ids: "np.typing.NDArray[np.int64]", random: np.random.Generator) -> pa.Table:
    """Rows of some keys with one of three values."""
    return pa.concat_tables([rows([number], value=float(random.integers(3))) for number in ids.tolist()])
