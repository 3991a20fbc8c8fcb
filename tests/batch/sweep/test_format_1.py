"""Folders of format 1, which are called after the pipeline."""

import json
import shutil
from pathlib import Path

import pytest

from icefloe.flow import Phase
from support.pipelines.format_1 import to_format_1
from support.pipelines.leftovers import left_in_shuffle
from support.pipelines.sweeping import aged, survey_of, swept
from support.pipelines.workshop import Workshop


@pytest.fixture
def folder(workshop: Workshop) -> Path:
    """The folder of the open batch 1 of format 1."""
    workshop.append(range(20))
    workshop.deliver()
    workshop.update([1, 2], value=2.0)
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE)
    found = to_format_1(workshop, batch)
    shutil.rmtree(batch.folder.parent)
    return found


def without_plan(folder: Path) -> None:
    (folder / "plan.json").unlink()


def move_checkpoint(workshop: Workshop, folder: Path) -> None:
    """The plan of format 1 names its checkpoint, wherever that is."""
    shutil.move(workshop.storage / "checkpoints/events", workshop.folder / "elsewhere")
    plan = json.loads((folder / "plan.json").read_text())
    plan["checkpoint_url"] = f"file://{workshop.folder}/elsewhere"
    (folder / "plan.json").write_text(json.dumps(plan))


@pytest.mark.parametrize("keeps_plan", [True, False])
def test_an_open_batch_stays_and_can_be_finished(workshop: Workshop, folder: Path, keeps_plan: bool) -> None:
    if not keeps_plan:
        without_plan(folder)
    aged(folder, days=400)
    before = left_in_shuffle(workshop.storage)
    assert swept(workshop.storage, older_than_seconds=0.0, takes_forgotten=True) == 0
    assert left_in_shuffle(workshop.storage) == before
    assert workshop.open().deliver().counts["update_after"] == 2


def test_a_batch_that_has_ended_goes_by_its_plan_at_once(workshop: Workshop, folder: Path) -> None:
    workshop.open().run_route().commit()
    assert swept(workshop.storage) > 5
    assert left_in_shuffle(workshop.storage) == []


def test_a_batch_without_a_plan_may_be_of_another_pipeline_of_that_name_and_goes_by_its_age(
    workshop: Workshop, folder: Path
) -> None:
    workshop.open().run_route().commit()
    without_plan(folder)
    assert swept(workshop.storage) == 0
    aged(folder)
    assert swept(workshop.storage) > 5
    assert left_in_shuffle(workshop.storage) == []


def test_the_checkpoint_is_found_where_the_plan_says(workshop: Workshop, folder: Path) -> None:
    move_checkpoint(workshop, folder)
    aged(folder)
    assert swept(workshop.storage) == 0
    workshop.set(checkpoint=f"file://{workshop.folder}/elsewhere").open().run_route().commit()
    assert swept(workshop.storage) > 5


def test_a_batch_whose_checkpoint_is_gone_stays_until_somebody_says_that_it_is_forgotten(
    workshop: Workshop, folder: Path
) -> None:
    shutil.rmtree(workshop.storage / "checkpoints")
    [problem] = survey_of(workshop.storage).problems
    assert (
        f"the files below file://{folder} belong to a checkpoint of pipeline events, which is not" in problem.sentence
    )
    assert swept(workshop.storage, takes_forgotten=True) == 0
    aged(folder)
    assert swept(workshop.storage, takes_forgotten=True) > 5
    assert left_in_shuffle(workshop.storage) == []


def test_files_under_the_number_of_a_batch_of_format_2_go_when_they_are_old(workshop: Workshop, folder: Path) -> None:
    workshop.open().deliver()
    workshop.append([99])
    batch = workshop.open()
    assert batch.plan.version == 3
    stray = folder.parent / "2/tasks/00000.json"
    stray.parent.mkdir(parents=True)
    stray.write_text("{}")
    assert swept(workshop.storage) == 0
    aged(stray)
    assert swept(workshop.storage) == 1
    assert batch.deliver().counts["insert"] == 1
