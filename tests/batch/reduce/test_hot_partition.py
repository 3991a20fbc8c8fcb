"""Eight of ten rows in one reduce partition: its parts are ranges, whatever happens to map outputs and tasks."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.reduce.coalesce_map_outputs import BatchExtents, load_coalesce_plan
from icefloe.flow import Phase
from icefloe.shuffle import map_output
from icefloe.shuffle.coalesce import WHOLE, hot_partitions
from icefloe.shuffle.committed_output import MapOutputRecord
from icefloe.shuffle.extents import RangeExtents
from support.fakes.stores import flip_byte
from support.pipelines.workshop import OpenBatch, Workshop
from support.tables.events import SCHEMA
from support.tables.skewed import HOT, PARTITIONS, skewed_ids, skewed_rows

FILE_ROWS: Final = 1_500
FORMS: Final[list[dict[str, Any]]] = [
    {"identifier_columns": ["id"]},
    {"identifier_columns": ["id"], "changes": "net"},
    {"identifier_columns": ["id"], "columns": ["value", "word"]},
    {"identifier_columns": None},
]


def opened(folder: Path, **keys: Any) -> tuple[Workshop, OpenBatch]:
    """A batch that changes all rows; the rows from before are in three files, the others in one."""
    workshop = Workshop.create(folder).set(initial_load="from_now", **keys)
    ids = skewed_ids(3 * FILE_ROWS)
    for first in range(3):
        workshop.table.append(skewed_rows(ids[first::3], 1.0))
    workshop.deliver()
    workshop.replace(skewed_rows(ids, 2.0))
    shuffle = {"partitions": PARTITIONS, "map_task_bytes": 1, "target_size_bytes": 16_384, **keys.get("shuffle", {})}
    return workshop, workshop.set(shuffle=shuffle).open()


def records(batch: OpenBatch) -> list[MapOutputRecord]:
    return batch.batch_folder.map_outputs.records(range(batch.plan.num_map_tasks))


def all_extents(batch: OpenBatch) -> Iterator[RangeExtents]:
    epoch = sum(record.generation for record in records(batch))
    extents = BatchExtents(batch.batch_folder, epoch)
    return (extents.of(each.range_id) for each in load_coalesce_plan(batch.batch_folder).ranges)


def delivered(workshop: Workshop, batch: OpenBatch) -> pa.Table:
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    return workshop.changes(1)


@pytest.fixture
def undivided(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Turns off that map tasks divide partitions, or on again."""

    def turn(is_off: bool) -> None:
        monkeypatch.setattr(map_output, "hot_partitions", lambda *_: () if is_off else hot_partitions(*_))

    return turn


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=["identity", "net", "identity carried", "no identity"])
def test_a_hot_partition_is_cut_into_ranges_that_deliver_the_same_changes(
    tmp_path: Path, form: dict[str, Any], undivided: Callable[[bool], None]
) -> None:
    undivided(True)
    workshop, batch = opened(tmp_path / "whole", **form)
    batch.run(Phase.SHUFFLE_WRITE)
    assert all(not each.parts for each in batch.coalesce().plan.ranges)
    whole = delivered(workshop, batch)
    undivided(False)
    workshop, batch = opened(tmp_path / "divided", **form)
    batch.run(Phase.SHUFFLE_WRITE)
    plan = batch.coalesce().plan
    if form["identifier_columns"]:
        assert {record.divided for record in records(batch)} == {(HOT,)}
        assert {bool(record.hash_partitions) for record in records(batch)} == {"columns" in form}
        rows = [each.most_rows for each in all_extents(batch)]
        assert sum(rows) == sum(record.rows for record in records(batch))
        assert max(rows) <= 4 * median(rows)
        assert sum(each.start == HOT for each in plan.ranges) >= 4
    changes = delivered(workshop, batch)
    volatile = ["_commit_snapshot_id", "_commit_timestamp"]
    assert changes.drop_columns(volatile).equals(whole.drop_columns(volatile))
    assert changes.num_rows == 6 * FILE_ROWS or "columns" in form


def test_a_map_output_that_did_not_divide_the_partition_is_read_by_all_its_ranges(
    tmp_path: Path, undivided: Callable[[bool], None]
) -> None:
    workshop, batch = opened(tmp_path)
    batch.run(Phase.SHUFFLE_WRITE)
    undivided(True)
    batch.batch_folder.map_outputs.void(1, 0, "for the test")
    write_map_output(batch.inputs, 1)
    undivided(False)
    batch.coalesce()
    ranges = [each for each in all_extents(batch) if each.parts]
    assert len(ranges) >= 4
    assert all((each.blocks["part"] == WHOLE).sum() == 1 for each in ranges)
    workshop.require_exact(batch.plan, delivered(workshop, batch))


@pytest.mark.parametrize("is_whole", [False, True], ids=["divided", "whole"])
def test_a_damaged_block_of_a_part_is_made_again_under_the_same_ranges(
    tmp_path: Path, undivided: Callable[[bool], None], is_whole: bool
) -> None:
    workshop, batch = opened(tmp_path)
    batch.run(Phase.SHUFFLE_WRITE)
    plan = batch.coalesce().plan
    data = records(batch)[1].data
    assert data is not None
    flip_byte(batch.store, data.key, data.size_bytes // 2)
    undivided(is_whole)
    changes = delivered(workshop, batch)
    [again] = [record for record in records(batch) if record.generation == 1]
    assert (again.map_id, again.divided) == (1, () if is_whole else (HOT,))
    assert load_coalesce_plan(batch.batch_folder) == plan
    workshop.require_exact(batch.plan, changes)


def test_one_hot_identity_stays_in_one_range(tmp_path: Path) -> None:
    workshop = Workshop.create(tmp_path).set(initial_load="from_now")
    workshop.table.append(skewed_rows([7] * 4_000 + list(range(100, 600)), 1.0))
    workshop.deliver()
    workshop.replace(pa.table([[7] * 4_000, np.arange(4_000.0), ["word"] * 4_000], schema=SCHEMA))
    shuffle = {"partitions": PARTITIONS, "target_size_bytes": 4_096}
    batch = workshop.set(shuffle=shuffle).open()
    batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    assert sum(each.most_rows >= 4_000 for each in all_extents(batch)) == 1
    workshop.require_exact(batch.plan, delivered(workshop, batch))
