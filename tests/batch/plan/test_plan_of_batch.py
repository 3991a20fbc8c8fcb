from typing import Any

import pytest

from icefloe.batch.plan.plan_of_batch import ScanTooLargeError, refuse_large_scan
from icefloe.iceberg.manifests.pyiceberg_avro import read_manifest_list
from support.pipelines.workshop import Workshop


def test_the_bounds_of_a_batch_and_its_plan_read_a_manifest_list_once(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def note_and_read(io: Any, location: str) -> Any:
        read.append(location)
        return read_manifest_list(io, location)

    monkeypatch.setattr("icefloe.iceberg.manifests.manifest_reader.read_manifest_list", note_and_read)
    for start in (0, 10):
        workshop.append(range(start, start + 10))
    # A load that does not fit is scanned to cut it, and again to plan its part.
    [step] = workshop.set(max_bytes_per_batch=1).open().plan.steps
    assert step.load_part is not None
    head = workshop.table.current_snapshot()
    assert head is not None
    assert read == [head.manifest_list]


def test_a_batch_that_reads_too_much_is_refused_with_both_numbers() -> None:
    refuse_large_scan(10, max_scan_bytes=10, batch="batch 3 of events")
    refuse_large_scan(10, max_scan_bytes=None, batch="batch 3 of events")
    sentence = (
        r"^batch 3 of events would read 2,048 bytes of files \(2\.0 KiB\), and max_scan_bytes is 1,024 \(1\.0 KiB\): "
        "raise max_scan_bytes, or make batches smaller by max_steps_per_batch or max_bytes_per_batch$"
    )
    with pytest.raises(ScanTooLargeError, match=sentence) as refused:
        refuse_large_scan(2048, max_scan_bytes=1024, batch="batch 3 of events")
    assert (refused.value.scan_bytes, refused.value.max_scan_bytes, refused.value.exit_code) == (2048, 1024, 65)
