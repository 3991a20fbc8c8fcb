"""Keys that change while the selected columns stay: batches with such rows, and what they must deliver."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import In

from icefloe.batch.report import BatchReport
from support.pipelines.workshop import OpenBatch, Workshop
from support.spark.row_counts import Row, difference, weights_of
from support.tables.events import rows

__all__ = ["MOVED", "SMALL", "damaged", "edited", "flip", "require_selected", "run", "types_of"]

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
    ends = [(step.start_snapshot_id, step.end_snapshot_id) for step in batch.plan.spec.steps]
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


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def damaged(batch: OpenBatch, map_id: int, change: Callable[[bytes], bytes] = flip) -> None:
    """Changes the rows of a map output behind the store's back."""
    [record] = batch.batch_folder.map_outputs.records([map_id])
    assert record.data is not None
    file = batch.folder / record.data.key
    file.write_bytes(change(file.read_bytes()))
