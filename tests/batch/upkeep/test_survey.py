"""Files of ended batches go, files of open batches stay, and files of no batch go by their age."""

import shutil
from pathlib import Path
from uuid import uuid4

import pytest

from icefloe.batch.context.batch_folder import MARKER
from icefloe.batch.open.next_range import RequestedRange
from icefloe.storage.local_store import unfinished_name
from icefloe.storage.location import CLOCK_FOLDER
from support.pipelines.leftovers import left_in_shuffle
from support.pipelines.sweeping import aged, require_swept_anywhere, survey_of, swept
from support.pipelines.workshop import OpenBatch, Workshop


def written(path: Path, *, days: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"of somebody")
    aged(path, days=days)
    return path


def test_files_of_a_batch_that_has_ended_go_at_once(workshop: Workshop, batch: OpenBatch) -> None:
    batch.commit()
    count = len(left_in_shuffle(workshop.storage))
    assert count > 5
    [leftover] = survey_of(workshop.storage).leftovers
    assert (leftover.batch_number, len(leftover.files)) == (1, count)
    assert left_in_shuffle(workshop.storage) != []
    assert swept(workshop.storage) == count
    assert left_in_shuffle(workshop.storage) == []
    assert (batch.folder.parent / MARKER).is_file()
    assert swept(workshop.storage) == 0


def test_files_of_an_open_batch_stay_however_old_they_are(workshop: Workshop, batch: OpenBatch) -> None:
    aged(workshop.storage, days=400)
    before = left_in_shuffle(workshop.storage)
    assert swept(workshop.storage, older_than_seconds=0.0) == 0
    assert left_in_shuffle(workshop.storage) == before
    assert batch.deliver().batch.counts["update_after"] == 1


def test_files_under_a_number_above_the_latest_go_only_when_they_are_old(workshop: Workshop, batch: OpenBatch) -> None:
    young = written(batch.folder.parent / "2/plan.json")
    old = written(batch.folder.parent / "2/tasks/00000.json", days=2)
    assert swept(workshop.storage) == 1
    assert (young.exists(), old.exists()) == (True, False)
    aged(young)
    assert swept(workshop.storage) == 1


def test_a_batch_that_is_opened_after_the_survey_keeps_its_files(workshop: Workshop) -> None:
    workshop.append(range(20))
    workshop.deliver()
    folder = next((workshop.storage / "shuffle/events").iterdir())
    written(folder / "1/0.0.ab.data", days=2)
    survey = survey_of(workshop.storage)
    assert len(survey.leftovers) == 1
    workshop.append([30])
    workshop.open()
    assert survey.delete() == (0, ())
    assert (folder / "1/0.0.ab.data").exists()


def test_trials_and_files_without_a_batch_go_when_they_are_old(workshop: Workshop, batch: OpenBatch) -> None:
    folder = batch.folder.parent
    names = [f"../_probe-{uuid4().hex}", f"../../{CLOCK_FOLDER}/{uuid4().hex}", "notes.txt", "later/x.json"]
    paths = [written(folder / name) for name in names]
    assert swept(workshop.storage) == 0
    aged(paths)
    assert swept(workshop.storage) == len(names)
    assert not any(path.exists() for path in paths)


def test_files_that_icefloe_does_not_make_stay_and_are_counted(workshop: Workshop, batch: OpenBatch) -> None:
    theirs = written(workshop.storage / "shuffle/README", days=90)
    survey = survey_of(workshop.storage)
    assert survey.notes == [f"1 files below file://{workshop.storage}/shuffle are not icefloe's: left alone"]
    survey.delete()
    assert theirs.exists()


@pytest.mark.parametrize("place", ["storage", "elsewhere/commits", "elsewhere/backfills/7/owners", "changes"])
def test_old_unfinished_files_go_wherever_a_pipeline_writes(workshop: Workshop, place: str) -> None:
    workshop.set(checkpoint=f"file://{workshop.folder}/elsewhere")
    workshop.append(range(20))
    workshop.deliver()
    old = written(workshop.folder / place / unfinished_name("0.json"), days=2)
    young = written(workshop.folder / place / unfinished_name("0.json"))
    swept(workshop.storage)
    assert (old.exists(), young.exists()) == (False, True)


def test_a_backfill_has_its_own_checkpoint_and_leaves_its_marker_alone(workshop: Workshop) -> None:
    head = workshop.append(range(20))
    backfill = workshop.open(RequestedRange(up_to_snapshot_id=head)).run_route()
    assert swept(workshop.storage) == 0
    backfill.commit()
    assert swept(workshop.storage) > 3
    assert [path.name for path in (workshop.storage / "shuffle").rglob("*") if path.is_file()] == [MARKER]
    assert workshop.deliver(RequestedRange(up_to_snapshot_id=head)) is None


@pytest.mark.parametrize("has_marker", [True, False])
@pytest.mark.parametrize("is_made_again", [True, False])
def test_files_of_a_checkpoint_that_is_gone_stay(
    workshop: Workshop, batch: OpenBatch, has_marker: bool, is_made_again: bool
) -> None:
    shutil.rmtree(workshop.storage / "checkpoints")
    if is_made_again:
        workshop.set(sink={"type": "files", "path": f"file://{workshop.folder}/again"}).open()
    if not has_marker:
        (batch.folder.parent / MARKER).unlink()
    before = left_in_shuffle(workshop.storage)
    aged(batch.folder.parent)
    survey = survey_of(workshop.storage)
    [problem] = survey.problems
    where = f"which is not at file://{workshop.storage}/checkpoints/events" if has_marker else "which no marker names"
    assert f"belong to checkpoint {batch.folder.parent.name} of pipeline events, {where}" in problem.sentence
    survey.delete()
    assert left_in_shuffle(workshop.storage) == before


def test_a_storage_without_shuffle_files_is_left_as_it_is(tmp_path: Path) -> None:
    survey = survey_of(tmp_path / "none")
    assert survey.notes == [f"there are no files below file://{tmp_path}/none/shuffle"]
    assert survey.delete() == (0, ())
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_whose_url_names_a_variable_is_found_where_that_variable_is_set(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", f"{workshop.folder}/elsewhere")
    workshop.set(checkpoint="file://${PLACE}/checkpoint")
    workshop.append(range(20))
    workshop.open().run_route().commit()
    assert "elsewhere" not in next(workshop.storage.rglob(MARKER)).read_text()
    left = survey_of(workshop.storage)
    assert left.leftovers == []
    [problem] = left.problems
    assert "a checkpoint at file://${PLACE}/checkpoint, and that variable is not set here" in problem.sentence
    assert swept(workshop.storage, environ={"PLACE": f"{workshop.folder}/elsewhere"}) > 0


def test_a_store_in_memory_is_swept(workshop: Workshop, tmp_path: Path) -> None:
    require_swept_anywhere(workshop, f"memory://{tmp_path.name}")
