import logging
from pathlib import Path

import pytest

from icefloe.batch.context.running_batch import BatchCommittedError
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.flow import Phase
from support.pipelines.workshop import OpenBatch, Workshop


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    workshop.append(range(3_000))
    workshop.deliver()
    workshop.update(range(0, 3_000, 2), value=2.0)
    return workshop.set(shuffle={"partitions": 3, "memory_bytes": 2**14}).open()


def test_a_recorded_output_is_adopted(workshop: Workshop, batch: OpenBatch) -> None:
    record = write_map_output(batch.inputs, 0)
    before = workshop.stored_objects()
    assert write_map_output(batch.inputs, 0) == record
    assert workshop.stored_objects() == before


def test_a_zombie_stops_when_its_batch_is_committed(batch: OpenBatch) -> None:
    zombie, inputs = batch.running, batch.inputs
    batch.deliver()
    with pytest.raises(BatchCommittedError, match="batch 1 of events is committed already"), zombie.fenced():
        write_map_output(inputs, 0)


def test_spills_go_to_the_local_disks_that_spark_names(
    workshop: Workshop, batch: OpenBatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir(mode=0o755)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(disk))
    monkeypatch.setenv("TMPDIR", "/nowhere")
    touched = disk.stat().st_mtime_ns
    batch.run(Phase.SHUFFLE_WRITE)
    assert disk.stat().st_mtime_ns > touched
    assert list(disk.iterdir()) == []
    batch.coalesce()
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    workshop.require_exact(batch.plan, workshop.changes(1))


def test_rows_handed_on_and_carried_over_are_what_was_read(batch: OpenBatch) -> None:
    record = write_map_output(batch.inputs, 0)
    assert record.removed_rows_read == record.added_rows_read == 3_000
    assert record.rows == 3_000
    assert record.carried_over_rows == 3_000
    assert sum(each.signed_count for each in record.ordinals) == 0


def test_the_log_says_how_files_were_compared(batch: OpenBatch, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="icefloe"):
        write_map_output(batch.inputs, 0)
    [line] = [each.getMessage() for each in caplog.records if each.getMessage().startswith("map task 0: read")]
    assert line == "map task 0: read 6000 rows, handed on 3000; files compared: 3 hashed"
