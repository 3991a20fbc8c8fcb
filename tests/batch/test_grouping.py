"""Any grouping of files into tasks, partitions and ranges gives the same changes."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.plan_document import Plan
from support.catalogs import sql_properties
from support.pipelines.workshop import Workshop
from support.spark.row_counts import Row, typed_changes_of
from support.tables.events import rows
from support.tables.small_rewrites import fast_ways_of_small_files


@pytest.fixture(autouse=True, scope="module")
def small_files() -> Iterator[None]:
    """Files are divided by row groups, however small they are."""
    with fast_ways_of_small_files():
        yield


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """A table that was appended to, rewritten in order and out of it, and deleted from, with small row groups."""
    properties = {"write.parquet.row-group-limit": "40"}
    workshop = Workshop.create(tmp_path_factory.mktemp("history"), properties=properties)
    random = np.random.default_rng(11)
    for start in range(0, 200, 50):
        workshop.append([*range(start, start + 50), start])
    workshop.update(range(40, 60), value=2.0)
    workshop.delete(range(110, 130))
    workshop.append(range(300, 320))
    workshop.replace(rows(random.permutation([*range(10, 200), *range(15, 20)]).tolist()))
    workshop.update([55, 56, 57, 310], value=3.0)
    return workshop


def delivered(workshop: Workshop, folder: Path, **keys: Any) -> tuple[Plan, pa.Table]:
    """The changes of the whole history after its first snapshot, put into a folder of their own."""
    sink = {"type": "files", "path": f"file://{folder}/changes"}
    here = Workshop(folder=folder, table=workshop.table).set(
        catalog={"name": "lab", **sql_properties(workshop.folder)},
        storage=f"file://{folder}/storage",
        sink=sink,
        **keys,
    )
    batch = here.open(RequestedRange(after_snapshot_id=workshop.snapshot_ids()[0]))
    batch.deliver()
    return batch.plan, here.changes(backfill_id=batch.plan.backfill_id)


@pytest.fixture(scope="module")
def wanted(history: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Counter[Row]:
    plan, changes = delivered(history, tmp_path_factory.mktemp("wanted"))
    history.require_exact(plan, changes)
    return typed_changes_of(changes)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    map_task_bytes=st.sampled_from([1, 3_000, 7_000, 2**28]),
    partitions=st.sampled_from([1, 2, 7, 64]),
    target_size_bytes=st.sampled_from([1, 500, 2**26]),
    memory_bytes=st.sampled_from([2**12, 2**16, 2**30]),
)
@pytest.mark.slow
def test_any_sizes_give_the_same_changes(
    history: Workshop, wanted: Counter[Row], tmp_path_factory: pytest.TempPathFactory, **sizes: int
) -> None:
    _, changes = delivered(history, tmp_path_factory.mktemp("any"), shuffle=sizes)
    assert typed_changes_of(changes) == wanted


def test_copied_rows_of_a_divided_file_still_cancel_before_the_shuffle(tmp_path: Path) -> None:
    workshop = Workshop.create(tmp_path, properties={"write.parquet.row-group-limit": "1000"})
    workshop.append(range(8000))
    workshop.replace(pa.concat_tables([rows(range(7777)), rows(range(7777, 7779), value=2.0), rows(range(7779, 8000))]))
    batch = workshop.set(shuffle={"map_task_bytes": 1}).open(
        RequestedRange(after_snapshot_id=workshop.snapshot_ids()[0])
    )
    report = batch.deliver()
    assert batch.plan.num_map_tasks == 8
    assert report.shuffled_rows == 4
    workshop.require_exact(batch.plan, workshop.changes(backfill_id=batch.plan.backfill_id))
