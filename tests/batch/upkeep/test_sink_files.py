"""Files at the sink that no manifest names go, and no other."""

import json
from pathlib import Path

import pytest

from icefloe.batch.open.next_range import RequestedRange
from support.pipelines.sweeping import aged, survey_of, swept
from support.pipelines.workshop import OpenBatch, Workshop


def stray(folder: Path, *, days: float = 0.0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "part-00099.parquet"
    path.write_bytes(b"of a zombie")
    aged(path, days=days)
    return path


def files(workshop: Workshop) -> set[Path]:
    return {path for path in (workshop.folder / "changes").rglob("*") if path.is_file()}


def test_files_that_no_manifest_of_an_ended_batch_names_go_at_once(workshop: Workshop, batch: OpenBatch) -> None:
    before = files(workshop)
    strays = [stray(workshop.folder / f"changes/batch={number}") for number in (0, 1)]
    assert swept(workshop.storage) == 1
    assert files(workshop) == before | {strays[1]}
    batch.deliver()
    assert swept(workshop.storage) == 1
    assert not strays[1].exists()
    workshop.require_exact(batch.plan, workshop.changes(1))


def test_files_of_a_batch_that_was_never_opened_go_when_they_are_old_unless_it_has_a_manifest(
    workshop: Workshop, batch: OpenBatch
) -> None:
    young = stray(workshop.folder / "changes/batch=8")
    old = stray(workshop.folder / "changes/batch=9", days=2)
    whole = stray(workshop.folder / "changes/batch=10", days=2)
    (whole.parent / "_manifest.json").write_text("{}")
    assert swept(workshop.storage) == 1
    assert (young.exists(), old.exists(), whole.exists()) == (True, False, True)


def test_the_output_of_a_backfill_is_judged_by_the_checkpoint_of_the_backfill(workshop: Workshop) -> None:
    head = workshop.append(range(20))
    request = RequestedRange(up_to_snapshot_id=head)
    workshop.deliver(request)
    workshop.deliver()
    backfill_id = next((workshop.folder / "changes/_backfills").iterdir()).name
    stray(workshop.folder / f"changes/_backfills/{backfill_id}/batch=0")
    trial = workshop.folder / f"changes/_backfills/{backfill_id}/_probe-0"
    trial.touch()
    aged(trial)
    before = workshop.changes(backfill_id=backfill_id)
    assert swept(workshop.storage) == 2
    assert workshop.changes(backfill_id=backfill_id) == before


def test_a_path_that_another_checkpoint_claims_is_left_alone(workshop: Workshop, batch: OpenBatch) -> None:
    claim = workshop.folder / "changes/_icefloe.json"
    claim.write_text(json.dumps({**json.loads(claim.read_text()), "owner": "0" * 32}))
    path = stray(workshop.folder / "changes/batch=0", days=90)
    survey = survey_of(workshop.storage)
    assert [note.partition(" is not claimed")[0] for note in survey.notes] == [f"file://{workshop.folder}/changes"]
    survey.delete()
    assert path.exists()


def test_files_of_an_ended_batch_without_a_manifest_are_noted_and_stay(workshop: Workshop, batch: OpenBatch) -> None:
    (workshop.folder / "changes/batch=0/_manifest.json").unlink()
    before = files(workshop)
    survey = survey_of(workshop.storage)
    assert survey.notes == [
        f"batch 0 at file://{workshop.folder}/changes has ended, but has no manifest: its files are left alone"
    ]
    survey.delete()
    assert files(workshop) == before


@pytest.mark.parametrize("is_set", [True, False])
def test_a_path_with_a_variable_is_found_where_the_variable_is_set(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, is_set: bool
) -> None:
    monkeypatch.setenv("OUTPUT", str(workshop.folder / "changes"))
    workshop.set(sink={"type": "files", "path": "file://${OUTPUT}"})
    workshop.append(range(20))
    workshop.deliver()
    path = stray(workshop.folder / "changes/batch=0")
    environ = {"OUTPUT": str(workshop.folder / "changes")} if is_set else {}
    survey = survey_of(workshop.storage, environ=environ)
    survey.delete()
    assert path.exists() is not is_set
    assert bool(survey.notes) is not is_set
