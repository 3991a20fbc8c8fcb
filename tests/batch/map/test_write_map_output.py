import logging
from pathlib import Path

import pytest

from icefloe.batch.map.write_map_output import write_map_output
from icefloe.flow import Phase
from support.pipelines.workshop import OpenBatch, Workshop


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    workshop.append(range(3_000))
    workshop.deliver()
    workshop.update(range(0, 3_000, 2), value=2.0)
    return workshop.set(shuffle={"partitions": 3, "memory_bytes": 2**14}).open()


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


def test_the_record_and_the_log_say_what_was_read_and_handed_on(
    batch: OpenBatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="icefloe"):
        record = write_map_output(batch.inputs, 0)
    assert record.removed_rows_read == record.added_rows_read == record.rows == record.carried_over_rows == 3_000
    assert sum(each.signed_count for each in record.ordinals) == 0
    [line] = [each.getMessage() for each in caplog.records if each.getMessage().startswith("map task 0: read")]
    assert line == "map task 0: read 6000 rows, handed on 3000; files compared: 3 hashed"
