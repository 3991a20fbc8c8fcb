from typing import Any

import pytest

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
    [step] = workshop.set(max_bytes_per_batch=1).open().plan.spec.steps
    assert step.load_part is not None
    head = workshop.table.current_snapshot()
    assert head is not None
    assert read == [head.manifest_list]
