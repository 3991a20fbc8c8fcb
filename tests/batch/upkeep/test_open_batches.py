"""A node asks the storages whose batches its old files are of."""

import shutil
from pathlib import Path

import pytest

from icefloe.batch.context.batch_folder import MARKER
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.run_settings import Credentials
from icefloe.batch.upkeep.survey import open_batches
from support.pipelines.workshop import OpenBatch, Workshop


def found(workshop: Workshop, *batches: str, storages: tuple[str, ...] | None = None) -> set[str]:
    urls = (f"file://{workshop.storage}",) if storages is None else storages
    return open_batches(batches, storages=urls, credentials=Credentials(), environ={})


def name_of(batch: OpenBatch, number: int | None = None) -> str:
    return f"{batch.folder.parent.name}/{batch.plan.batch_number if number is None else number}"


def test_a_batch_is_open_until_it_ends(workshop: Workshop, batch: OpenBatch) -> None:
    own, before, after = (name_of(batch, number) for number in (1, 0, 2))
    others = (f"{'0' * 32}/1", f"{batch.folder.parent.name}/later", "notes/x")
    assert found(workshop, own, before, after, *others) == {own}
    batch.commit()
    assert found(workshop, own, before, after, *others) == set()


def test_a_batch_of_a_backfill_is_open_too(workshop: Workshop) -> None:
    head = workshop.append(range(20))
    backfill = workshop.open(RequestedRange(up_to_snapshot_id=head)).run_route()
    assert found(workshop, name_of(backfill)) == {name_of(backfill)}
    backfill.commit()
    assert found(workshop, name_of(backfill)) == set()


def test_any_of_several_storages_may_have_it(workshop: Workshop, batch: OpenBatch, tmp_path: Path) -> None:
    other = Workshop.create(tmp_path / "other")
    other.append([1])
    other.deliver()
    both = (f"file://{other.storage}", f"file://{workshop.storage}")
    unknown = f"{'0' * 32}/1"
    assert found(workshop, name_of(batch), unknown, storages=both) == {name_of(batch)}
    assert found(workshop, name_of(batch), storages=both[:1]) == set()
    assert found(workshop, name_of(batch), storages=()) == set()


def test_a_storage_that_no_pipeline_has_written_to_can_judge_nothing(
    workshop: Workshop, batch: OpenBatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    batch.commit()
    gone = f"file://{tmp_path}/not-mounted"
    assert found(workshop, name_of(batch), storages=(gone, f"file://{workshop.storage}")) == {name_of(batch)}
    assert f"no pipeline has marked a folder of batches below {gone}/shuffle: correct the URL" in caplog.text


def test_files_are_needed_as_long_as_nobody_can_say_otherwise(
    workshop: Workshop, batch: OpenBatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = f"{'0' * 32}/1"
    batch.commit()
    shutil.rmtree(workshop.storage / "checkpoints")
    assert found(workshop, name_of(batch), other) == {name_of(batch)}
    assert "files of batches that may be open are kept: the files below file://" in caplog.text
    (batch.folder.parent / MARKER).write_text("damaged")
    assert found(workshop, name_of(batch), other) == {name_of(batch)}
    assert found(workshop, other, storages=("lake/icefloe",)) == {other}
    assert "'lake/icefloe/shuffle' is not the URL of a store" in caplog.text
