"""Any grouping of files into tasks, partitions and ranges gives the same changes."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe.batch.open.next_range import RequestedRange
from support.pipelines.workshop import Workshop
from support.tables.events import rows
from support.tables.small_rewrites import fast_ways_of_small_files


@pytest.fixture(autouse=True, scope="module")
def small_files() -> Iterator[None]:
    """Files are divided by row groups, however small they are."""
    with fast_ways_of_small_files():
        yield


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
