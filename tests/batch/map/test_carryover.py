from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysTrue

from icefloe.batch.map.carryover import CarryOver
from icefloe.batch.map.rewritten_files import FastWay
from icefloe.batch.rows.file_effects import Effect, FileEffects
from icefloe.batch.rows.row_reader import ReadRows, TableRowReader
from icefloe.iceberg.data_file import DataFile
from support.pipelines.workshop import OpenBatch, Workshop
from support.spark.row_counts import Row, rows_of
from support.tables.events import rows

AMPLE = 1 << 30


class CountingReader:
    """Remembers how often each file was read, whole or by position."""

    def __init__(self, reader: TableRowReader) -> None:
        self.inner = reader
        self.whole: Counter[str] = Counter()
        self.by_position: Counter[str] = Counter()

    def read(self, file: FileEffects) -> Iterator[ReadRows]:
        self.whole[file.data_file.path] += 1
        return self.inner.read(file)

    def read_rows(self, data_file: DataFile, positions: Any) -> Iterator[pa.RecordBatch]:
        self.by_position[data_file.path] += 1
        return self.inner.read_rows(data_file, positions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def files_of(batch: OpenBatch) -> list[FileEffects]:
    inputs = batch.inputs
    return [work for map_id in range(batch.plan.num_map_tasks) for work in inputs.file_effects(map_id)]


def handed_on(carryover: CarryOver) -> Counter[tuple[int, Row]]:
    """The signed count of each row by ordinal; fails where a row is handed on that the rest cancels."""
    weights: Counter[tuple[int, Row]] = Counter()
    for changed in carryover.changed_rows():
        for position in range(changed.batch.num_rows):
            [row] = rows_of(pa.Table.from_batches([changed.batch.slice(position, 1)]))
            weights[int(changed.change_ordinals[position]), row] += int(changed.weights[position])
    assert all(weights.values())
    return weights


def expected(workshop: Workshop, batch: OpenBatch) -> Counter[tuple[int, Row]]:
    return Counter(
        {
            (step.change_ordinal, row): weight
            for step in batch.plan.spec.steps
            for row, weight in workshop.step_weights(step).items()
        }
    )


def run(batch: OpenBatch, *, memory_bytes: int = AMPLE) -> tuple[CarryOver, CountingReader]:
    reader = CountingReader(batch.inputs.row_reader())
    ways = (FastWay.ALIGNED,)
    return CarryOver(files_of(batch), reader, memory_bytes=memory_bytes, fast_ways=ways), reader  # type: ignore[arg-type]


def after_initial_load(workshop: Workshop, ids: Sequence[int]) -> None:
    workshop.append(ids)
    workshop.deliver()


def test_a_rewrite_that_keeps_the_row_order_hands_on_only_what_changed(workshop: Workshop) -> None:
    after_initial_load(workshop, range(500))
    new = rows(range(500)).set_column(1, "value", pa.array(np.where(np.arange(500) % 100 == 7, 9.0, 1.0)))
    workshop.replace(new)
    batch = workshop.open()
    carryover, reader = run(batch)
    assert handed_on(carryover) == expected(workshop, batch)
    assert carryover.tally.rows_read == 1000
    assert set(reader.whole.values()) == {1}
    assert not reader.by_position


@pytest.mark.parametrize("memory_bytes", [AMPLE, 0])
def test_alignment_gives_up_when_the_row_order_was_lost_and_the_result_is_the_same(
    workshop: Workshop, memory_bytes: int
) -> None:
    after_initial_load(workshop, range(500))
    order = np.random.default_rng(3).permutation(500)
    workshop.replace(rows(range(1, 501)).take(pa.array(order)))
    batch = workshop.open()
    carryover, reader = run(batch, memory_bytes=memory_bytes)
    weights = handed_on(carryover)
    assert weights == expected(workshop, batch)
    assert len(weights) == 2
    assert set(reader.whole.values()) == {1 if memory_bytes else 2}
    assert bool(reader.by_position) == (memory_bytes == 0)


@pytest.mark.parametrize("memory_bytes", [AMPLE, 10_000, 0])
def test_a_file_that_is_added_and_removed_inside_the_batch_counts_in_both_steps(
    workshop: Workshop, memory_bytes: int
) -> None:
    after_initial_load(workshop, range(200))
    workshop.append(range(200, 300))
    workshop.update(range(150, 250), value=2.0)
    workshop.append(range(300, 310))
    workshop.delete(range(190, 305))
    batch = workshop.open()
    assert any(len(work.effects) > 1 for work in files_of(batch))
    carryover, _ = run(batch, memory_bytes=memory_bytes)
    assert handed_on(carryover) == expected(workshop, batch)
    carryover.tally.require(net_by_ordinal(expected(workshop, batch)), what="the test")


def test_a_file_that_counts_twice_leaves_the_cancelling_to_the_reduce_side(workshop: Workshop) -> None:
    after_initial_load(workshop, range(20))
    workshop.replace(rows(range(10, 30)))
    batch = workshop.open()
    removed, added = sorted(files_of(batch), key=lambda file: file.effects[0].weight)
    twice = FileEffects(data_file=added.data_file, effects=(Effect(change_ordinal=0, weight=2),))
    carryover = CarryOver([removed, twice], batch.inputs.row_reader(), memory_bytes=AMPLE)
    weights = Counter[int]()
    for changed in carryover.changed_rows():
        for number, weight in zip(changed.batch["id"].to_pylist(), changed.weights.tolist(), strict=True):
            weights[number] += weight
    assert weights == Counter({number: 2 * (number >= 10) - (number < 20) for number in range(30)})
    carryover.tally.require({0: 20}, what="the test")


def test_hashes_that_do_not_fit_into_memory_are_compared_slice_by_slice(workshop: Workshop) -> None:
    count = 140_000
    workshop.append(range(count))
    workshop.append(range(-100, 0))
    workshop.deliver()
    turned = np.roll([*range(count - 5), *range(count, count + 5)], count // 2)
    with workshop.table.transaction() as transaction:
        transaction.delete(AlwaysTrue())
        transaction.append(rows(turned.tolist()))
        transaction.append(rows([-1000, *range(-99, 0)]))
    batch = workshop.open()
    carryover, reader = run(batch, memory_bytes=1 << 12)
    found = list(carryover.changed_rows())
    signs = [(number, weight) for rows_ in found for number, weight in pairs(rows_.batch, rows_.weights)]
    removed, added = [*range(count - 5, count), -100], [*range(count, count + 5), -1000]
    assert sorted(signs) == sorted([*((n, -1) for n in removed), *((n, 1) for n in added)])
    assert carryover.tally.rows_read == 2 * (count + 100)
    # The two of equal order are read once; the others once to learn that theirs was lost, then once for each slice.
    assert sorted(reader.whole.values()) == [1, 1, 1 + 8, 1 + 8]


def pairs(batch: pa.RecordBatch, weights: Any) -> list[tuple[int, int]]:
    return list(zip(batch["id"].to_pylist(), weights.tolist(), strict=True))


def net_by_ordinal(weights: Counter[tuple[int, Row]]) -> dict[int, int]:
    net: Counter[int] = Counter()
    for (ordinal, _), weight in weights.items():
        net[ordinal] += weight
    return dict(net)
