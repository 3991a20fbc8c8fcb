"""Files of batches that are staged on the way to a sink go when nobody needs them, and no other."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from icefloe.batch.context.batch_folder import MARKER
from icefloe.batch.open.next_range import RequestedRange
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
