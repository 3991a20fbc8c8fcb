import shutil
from pathlib import Path

import pytest

from icefloe.batch.context.running_batch import BatchCommittedError
from icefloe.batch.map.write_part import write_part
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
    assert report.counts == {"insert": 30, "delete": 0, "update_before": 0, "update_after": 0}
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


def test_a_part_that_is_recorded_is_not_written_again(workshop: Workshop, batch: OpenBatch) -> None:
    record = write_part(batch.inputs, batch.running.folder_of_changes, 1)
    before = workshop.stored_objects()
    assert write_part(batch.inputs, batch.running.folder_of_changes, 1) == record
    assert workshop.stored_objects() == before


def test_a_part_whose_record_was_lost_is_written_again_byte_for_byte(workshop: Workshop, batch: OpenBatch) -> None:
    batch.run(Phase.INSERT_ONLY)
    before = {path: data for path, data in workshop.stored_objects().items() if "part-" in path}
    batch.store.delete(["1.0"])
    batch.run(Phase.INSERT_ONLY)
    assert {path: data for path, data in workshop.stored_objects().items() if "part-" in path} == before


def test_a_zombie_stops_when_its_batch_is_committed(batch: OpenBatch) -> None:
    zombie, inputs = batch.running, batch.inputs
    batch.deliver()
    with pytest.raises(BatchCommittedError, match="batch 0 of events is committed already"), zombie.fenced():
        write_part(inputs, zombie.folder_of_changes, 1)


def test_a_part_grows_on_the_local_disks_that_spark_names(
    batch: OpenBatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = [tmp_path / name for name in ("one", "two")]
    for disk in disks:
        disk.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", ",".join(map(str, disks)))
    touched = [disk.stat().st_mtime_ns for disk in disks]
    batch.run(Phase.INSERT_ONLY)
    assert all(disk.stat().st_mtime_ns > before for disk, before in zip(disks, touched, strict=True))
    assert [path for disk in disks for path in disk.iterdir()] == []
