"""Pipelines of one name and storage, and plans that are lost or replaced while their batch is open."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from icefloe.errors import TerminalError
from support.pipelines.workshop import Workshop


def staging(workshop: Workshop) -> Workshop:
    """The same name, storage and table, with a checkpoint and a sink of its own, and another filter."""
    folder = workshop.folder
    keys = {
        **workshop.keys,
        "checkpoint": f"file://{folder}/staging/checkpoint",
        "sink": {"type": "files", "path": f"file://{folder}/staging/changes"},
        "filter": "id < 3",
    }
    return replace(workshop, keys=keys)


def ids(folder: Path, batch: int) -> list[int]:
    manifest = json.loads((folder / f"batch={batch}" / "_manifest.json").read_text())
    names = [name for part in manifest["parts"] for name in part["names"]]
    return sorted(
        number for name in names for number in pq.read_table(folder / f"batch={batch}" / name)["id"].to_pylist()
    )


def test_a_plan_of_another_checkpoint_is_not_adopted(workshop: Workshop) -> None:
    workshop.append(range(10))
    ours, theirs = workshop.open(), staging(workshop).open()
    shutil.copytree(theirs.folder, ours.folder, dirs_exist_ok=True)
    with pytest.raises(
        TerminalError, match=r"holds the plan of another batch, of pipeline events, batch 0 .* run again"
    ):
        workshop.open()
    shutil.rmtree(ours.folder)
    workshop.open().deliver()
    assert ids(workshop.folder / "changes", 0) == list(range(10))


def test_a_plan_that_was_lost_is_made_again_with_the_recorded_cores(workshop: Workshop) -> None:
    workshop.append(range(100))
    workshop.deliver()
    workshop.update(range(0, 100, 3), value=2.0)
    batch = workshop.open(cores=16)
    batch.run_route()
    before = sorted(path.name for path in (workshop.folder / "changes/batch=1").iterdir())
    shutil.rmtree(batch.folder)
    again = workshop.open(cores=2)
    assert (again.plan.spec.cores, again.plan.num_partitions) == (16, 256)
    assert again.plan.digest == batch.plan.digest
    again.deliver()
    after = sorted(path.name for path in (workshop.folder / "changes/batch=1").iterdir())
    assert after == sorted([*before, "_manifest.json"])


def test_a_plan_that_cannot_be_made_again_as_it_was_is_refused_with_the_release_to_run(workshop: Workshop) -> None:
    workshop.append(range(10))
    batch = workshop.open()
    shutil.rmtree(batch.folder)
    offset = workshop.folder / "storage/checkpoints/events/offsets/0.json"
    offset.write_text(offset.read_text().replace(batch.plan.digest, "0" * 32))
    with pytest.raises(
        TerminalError, match=r"cannot be planned again as it was opened with icefloe 0\.1\.0: .*that release"
    ):
        workshop.open()


def test_text_of_the_environment_is_in_no_plan_and_no_record(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENANT", "word of tenant 4711")
    monkeypatch.setenv("PLACE", f"{workshop.folder}/secret-place")
    workshop.append(range(10))
    workshop.set(
        filter="word != '${TENANT}'",
        sink={"type": "files", "path": "file://${PLACE}/changes"},
        storage="file://${PLACE}/storage",
        checkpoint="file://${PLACE}/checkpoint",
    )
    batch = workshop.open()
    documents = list((workshop.folder / "secret-place").rglob("*.json"))
    assert len(documents) > 3
    for path in documents:
        assert "tenant 4711" not in path.read_text(), path
        assert "secret-place" not in path.read_text(), path
    assert "${TENANT}" in (batch.folder / "plan.json").read_text()
    assert batch.deliver().batch.counts["insert"] == 10
