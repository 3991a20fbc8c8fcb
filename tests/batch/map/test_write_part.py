import shutil
from pathlib import Path

import pytest

from icefloe.flow import Phase, Route
from support.pipelines.workshop import OpenBatch, Workshop


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    for number in range(3):
        workshop.append(range(10 * number, 10 * number + 10))
    return workshop.set(shuffle={"map_task_bytes": 1}).open()


def test_each_map_task_is_a_part_of_inserts(workshop: Workshop, batch: OpenBatch) -> None:
    batch.run(Phase.INSERT_ONLY)
    assert len(list((workshop.folder / "changes/batch=0").glob("part-*"))) == 3
    report = batch.commit()
    assert report.batch.counts == {"insert": 30, "delete": 0, "update_before": 0, "update_after": 0}
    assert (report.rows_read, report.shuffled_bytes, report.carried_over_rows) == (30, 0, 0)
    workshop.require_exact(batch.plan, workshop.changes(0))


@pytest.mark.parametrize("initial_load", ["full", "from_earliest"])
def test_a_file_that_the_table_lists_twice_is_inserted_twice(workshop: Workshop, initial_load: str) -> None:
    workshop.append(range(3))
    path = workshop.table.refresh().inspect.files()["file_path"][0].as_py().removeprefix("file://")
    copy = shutil.copy(path, Path(path).with_name("copy.parquet"))
    with workshop.table.transaction() as transaction:
        for _ in range(2):
            transaction.add_files([f"file://{copy}"], check_duplicate_files=False)
    batch = workshop.set(initial_load=initial_load).open()
    assert batch.plan.route is Route.INSERT_ONLY
    batch.deliver()
    assert sorted(workshop.changes(0)["id"].to_pylist()) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
