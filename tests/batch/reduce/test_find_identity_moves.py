"""Identifier columns that are not selected: what one identity loses and another gets is no change."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import In

from icefloe.batch.batch_keys import identity_moves_key
from icefloe.batch.context.batch_folder import BatchFileMissingError
from icefloe.batch.context.map_inputs import MapInputs
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.reduce.find_identity_moves import load_identity_moves
from icefloe.batch.reduce.repair import UnreliableStoreError
from icefloe.batch.report import BatchReport
from icefloe.batch.verify.replay_batches import verify_batches
from icefloe.errors import TerminalError
from icefloe.flow import Phase
from support.pipelines.transfers import data_in_the_storage
from support.pipelines.workshop import OpenBatch, Workshop
from support.spark.row_counts import Row, difference, weights_of
from support.tables.events import rows

SMALL = {"map_task_bytes": 1, "partitions": 8, "target_size_bytes": 1}
MOVED = 97
"""Rows whose ids differ by it have the same word."""


def edited(workshop: Workshop, count: int = 60, **keys: Any) -> Workshop:
    """Ids are not selected; of those below 20 every other changes its value, then ten rows get other ids.

    The word of id 5 comes twice.
    """
    workshop.set(**{"columns": ["value", "word"], "shuffle": SMALL, **keys})
    workshop.append([*range(count), 5, 5 + MOVED])
    assert workshop.deliver() is not None
    workshop.update(range(0, 20, 2), value=2.0)
    moved = range(30, 40)
    workshop.table.overwrite(
        rows([number + MOVED for number in moved]), overwrite_filter=In(term="id", literals=list(moved))
    )
    return workshop


def selected(workshop: Workshop, snapshot_id: int | None) -> Counter[Row]:
    weights: Counter[Row] = Counter()
    for (number, value, word), count in workshop.state(snapshot_id).items():
        del number
        weights[value, word] += count
    return weights


def require_selected(workshop: Workshop, batch: OpenBatch, *, net: bool = False) -> pa.Table:
    """The changes of each step are the difference of what is selected of its states."""
    changes = workshop.changes(batch.plan.batch_number)
    ends = [(step.start_snapshot_id, step.end_snapshot_id) for step in batch.plan.steps]
    if net:
        assert weights_of(changes) == difference(selected(workshop, ends[0][0]), selected(workshop, ends[-1][1]))
        return changes
    for ordinal, (start, end) in enumerate(ends):
        step = changes.filter(pa.compute.equal(changes["_change_ordinal"], ordinal))
        assert weights_of(step) == difference(selected(workshop, start), selected(workshop, end))
    return changes


def run(batch: OpenBatch) -> BatchReport:
    return batch.run_route().commit()


def types_of(changes: pa.Table) -> dict[str, int]:
    return dict(Counter(changes["_change_type"].to_pylist()))


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


@pytest.mark.parametrize("filter_text", ["word != 'word 31'", "id < 100 and value < 2.0", "id >= 127"])
@pytest.mark.parametrize("changes", ["each", "net"])
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
def test_rows_beyond_memory_give_the_same_changes(tmp_path: Path, memory_bytes: int) -> None:
    """Slices of the row hashes, and of the identities within a reduce partition."""
    delivered = []
    for memory in (1 << 30, memory_bytes):
        workshop = edited(Workshop.create(tmp_path / str(memory)), 300)
        batch = workshop.set(shuffle={"map_task_bytes": 1, "partitions": 4, "memory_bytes": memory}).open()
        run(batch)
        varying = ["_commit_snapshot_id", "_commit_timestamp"]
        delivered.append(require_selected(workshop, batch).drop_columns(varying))
    assert delivered[0] == delivered[1]


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def damaged(batch: OpenBatch, map_id: int, change: Callable[[bytes], bytes] = flip) -> None:
    """Changes the rows of a map output behind the store's back."""
    [record] = batch.batch_folder.map_outputs.records([map_id])
    assert record.data is not None
    file = batch.folder / record.data.key
    file.write_bytes(change(file.read_bytes()))


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
    workshop.append([1000])
    again = workshop.open()
    assert again.plan == first.plan
    run(again)
    require_selected(workshop, again)
    run(workshop.open())
    assert verify_batches(workshop.session()).is_equal


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
        partitions = load_identity_moves(batch.batch_folder, each.range_id).by_partition(plan.num_partitions)
        assert partitions.keys() <= set(range(each.start, each.stop))
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    require_selected(workshop, batch)
    assert verify_batches(workshop.session()).is_equal
