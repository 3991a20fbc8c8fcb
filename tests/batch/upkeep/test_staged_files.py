"""Files of batches that are staged on the way to a sink go when nobody needs them, and no other."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from icefloe.batch.context.batch_folder import MARKER
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.upkeep.leftover import Reason
from icefloe.engines.run_batch import BatchRun, run_batch
from support.pipelines.sweeping import aged, survey_of, swept
from support.pipelines.workshop import Workshop
from support.sinks.registered import registered_sinks

pytestmark = pytest.mark.slow


@pytest.fixture
def delivering(workshop: Workshop) -> Iterator[Workshop]:
    """A pipeline whose batches 0 to 2 were delivered, so that batch 2 is staged."""
    with registered_sinks():
        workshop.set(sink={"type": "index", "server": "sweep"})
        for number in range(3):
            workshop.append([number])
            deliver(workshop)
        yield workshop


def deliver(workshop: Workshop, request: RequestedRange | None = None) -> BatchRun:
    return run_batch(workshop.session(), request, environ={})


def staged(workshop: Workshop, number: int) -> Path:
    return workshop.storage / f"staged/events/batch={number}"


def stray(folder: Path, *, days: float = 0.0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "part-00099.parquet"
    path.write_bytes(b"of a zombie")
    aged(path, days=days)
    return path


@pytest.mark.parametrize("is_set", [True, False])
def test_a_changelog_is_found_by_the_marker_where_its_variable_is_set(
    delivering: Workshop, monkeypatch: pytest.MonkeyPatch, is_set: bool
) -> None:
    monkeypatch.setenv("LOG", str(delivering.folder / "log"))
    delivering.set(changelog={"path": "file://${LOG}"})
    for number in (3, 4):
        delivering.append([number])
        deliver(delivering)
    [marker] = (delivering.storage / "shuffle/events").glob(f"*/{MARKER}")
    assert json.loads(marker.read_text())["changes_url"] == "file://${LOG}"
    path = stray(delivering.folder / "log/batch=3")
    survey = survey_of(delivering.storage, environ={"LOG": str(delivering.folder / "log")} if is_set else {})
    survey.delete()
    assert path.exists() is not is_set
    assert bool(survey.notes) is not is_set
    assert {each.name for each in (delivering.folder / "log").glob("batch=*")} == {"batch=3", "batch=4"}


def test_the_changes_of_a_backfill_stay(delivering: Workshop) -> None:
    deliver(delivering, RequestedRange(up_to_snapshot_id=delivering.head()))
    [part] = delivering.storage.glob("staged/events/_backfills/*/batch=0/*.parquet")
    path = stray(part.parent)
    aged(part.parent, days=400)
    swept(delivering.storage)
    assert (part.exists(), path.exists()) == (True, False)


@pytest.fixture
def forgotten(delivering: Workshop) -> Workshop:
    """A pipeline whose checkpoint is gone, and whose files are old; a backfill of it has ended."""
    deliver(delivering, RequestedRange(up_to_snapshot_id=delivering.head()))
    assert swept(delivering.storage) > 0
    shutil.rmtree(delivering.storage / "checkpoints")
    aged(delivering.storage)
    return delivering


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_batches_of_a_checkpoint_that_is_gone_go_when_somebody_says_that_it_is_forgotten(forgotten: Workshop) -> None:
    before = files(forgotten.storage)
    survey_of(forgotten.storage).delete()
    assert files(forgotten.storage) == before
    part = staged(forgotten, 2) / "part-00000.parquet"
    aged(part, days=0)
    assert swept(forgotten.storage, takes_forgotten=True) == 0, "the shuffle folder leads to what is staged"
    aged(part)
    of_backfill = files(forgotten.storage / "staged/events/_backfills")
    assert swept(forgotten.storage, takes_forgotten=True) == len(before) - len(of_backfill) < len(before)
    assert files(forgotten.storage) == of_backfill, "a backfill has a checkpoint of its own"


@pytest.mark.parametrize("moment", ["before the survey", "after it"])
def test_batches_that_another_checkpoint_has_staged_there_since_stay(forgotten: Workshop, moment: str) -> None:
    claim = forgotten.storage / "staged/events/_icefloe.json"
    other = json.dumps({**json.loads(claim.read_text()), "owner": "0" * 32})
    kept = set(files(forgotten.storage / "staged"))
    if moment == "before the survey":
        claim.write_text(other)
        aged(claim)
    survey = survey_of(forgotten.storage, takes_forgotten=True)
    claim.write_text(other)
    survey.delete()
    assert set(files(forgotten.storage)) == kept


def test_an_ended_backfill_of_a_checkpoint_that_was_moved_stays(delivering: Workshop) -> None:
    """No run opens it again, so that its marker keeps the old place."""
    deliver(delivering, RequestedRange(up_to_snapshot_id=delivering.head()))
    kept = set(files(delivering.storage / "staged/events/_backfills"))
    assert len(kept) == 3
    shutil.move(delivering.storage / "checkpoints/events", delivering.folder / "elsewhere")
    delivering.set(checkpoint=f"file://{delivering.folder}/elsewhere")
    delivering.append([7])
    deliver(delivering)
    aged(delivering.folder)
    assert survey_of(delivering.storage).problems == ()
    assert swept(delivering.storage, takes_forgotten=True) > 0
    assert set(files(delivering.storage / "staged/events/_backfills")) == kept


def test_a_changelog_of_a_checkpoint_that_is_gone_stays_and_is_named(delivering: Workshop) -> None:
    delivering.set(changelog={"path": f"file://{delivering.folder}/log"})
    for number in (3, 4):
        delivering.append([number])
        deliver(delivering)
    shutil.rmtree(delivering.storage / "checkpoints")
    aged(delivering.folder)
    kept = files(delivering.folder / "log")
    survey = survey_of(delivering.storage, takes_forgotten=True)
    changelog = f"the changelog file://{delivering.folder}/log of pipeline events stays"
    assert any(changelog in each for each in survey.notes)
    survey.delete()
    assert (files(delivering.folder / "log"), files(delivering.storage)) == (kept, [])


def test_a_backfill_that_is_forgotten_leaves_the_batches_of_its_pipeline(delivering: Workshop) -> None:
    opened = delivering.open(RequestedRange(up_to_snapshot_id=delivering.head())).run_route()
    [of_backfill] = (delivering.storage / "staged/events/_backfills").iterdir()
    kept = set(files(delivering.storage / "staged")) - set(files(of_backfill))
    shutil.rmtree(delivering.storage / f"checkpoints/events/backfills/{of_backfill.name}")
    aged(delivering.storage)
    survey = survey_of(delivering.storage, takes_forgotten=True)
    forgotten = [each for each in survey.leftovers if each.reason is Reason.FORGOTTEN]
    assert [each.backfill_id for each in forgotten] == [of_backfill.name] * 2
    survey.delete()
    assert set(files(delivering.storage / "staged")) == kept
    assert files(opened.folder) == []
