"""The path of a sink belongs to one pipeline: a batch of another one is refused before it is open."""

import shutil
from dataclasses import replace
from typing import Any

import pytest

from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import PathClaimedError
from support.pipelines.workshop import OpenBatch, Workshop


def test_a_sink_that_holds_a_batch_of_another_pipeline_leaves_no_open_batch(workshop: Workshop) -> None:
    workshop.append(range(10))
    workshop.deliver()
    workshop.append([10])
    mine = workshop.set(name="another")
    with pytest.raises(TerminalError, match=r"batch=0 already holds a whole batch .* of pipeline events .* of its own"):
        mine.prepare()
    assert workshop.session().checkpoint.pipeline() is None
    mine.set(sink={"type": "files", "path": f"file://{workshop.folder}/other"}).deliver()


def test_a_lost_checkpoint_may_deliver_the_same_range_again_once_its_claim_is_given_up(workshop: Workshop) -> None:
    workshop.append(range(10))
    first = workshop.deliver()
    checkpoint = workshop.session().settings.checkpoint_url.removeprefix("file://")
    shutil.rmtree(checkpoint)
    with pytest.raises(PathClaimedError, match=r"belongs to pipeline events .*_icefloe\.json says, not to checkpoint"):
        workshop.prepare()
    (workshop.folder / "changes" / "_icefloe.json").unlink()
    again = workshop.deliver()
    assert first is not None
    assert again is not None
    assert again.hash_sum == first.hash_sum


@pytest.mark.parametrize("takes_over", [False, True])
def test_a_path_of_another_pipeline_is_refused_before_anything_is_written(workshop: Workshop, takes_over: bool) -> None:
    workshop.append(range(10))
    workshop.open()
    before = workshop.stored_objects()
    theirs = workshop.set(name="another").session()
    with pytest.raises(PathClaimedError, match=r"belongs to pipeline events .* of pipeline another; give each"):
        open_and_plan(replace(theirs, writer=Writer(owner="them"), takes_over=takes_over))
    assert workshop.stored_objects() == before
    elsewhere = workshop.set(sink={"type": "files", "path": f"file://{workshop.folder}/other"})
    assert elsewhere.prepare().plan is not None, "nobody owns its checkpoint"


def test_a_first_run_that_is_overtaken_by_another_of_its_pipeline_goes_on_with_its_batch(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.append(range(10))
    check = ChangeFiles.check
    opened: list[OpenBatch] = []

    def overtaken(sink: ChangeFiles) -> None:
        check(sink)
        monkeypatch.undo()
        opened.append(workshop.open())

    monkeypatch.setattr(ChangeFiles, "check", overtaken)
    assert workshop.prepare().plan_url == opened[0].plan_url


@pytest.mark.parametrize("is_planned", [False, True], ids=["before either is planned", "after the other's check"])
def test_of_two_pipelines_with_storages_of_their_own_and_one_path_at_once_the_second_is_refused_by_name(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, is_planned: bool
) -> None:
    workshop.append(range(10))
    refuse = ChangeFiles.refuse_other_batch
    delivered: list[Any] = []

    def overtaken(sink: ChangeFiles, **batch: Any) -> None:
        refuse(sink, **batch)
        monkeypatch.undo()
        workshop.set(storage=f"file://{workshop.folder}/storage", name="events")
        delivered.append(workshop.deliver() if is_planned else workshop.open())

    monkeypatch.setattr(ChangeFiles, "refuse_other_batch", overtaken)
    second = workshop.set(storage=f"file://{workshop.folder}/of the second", name="second").session()
    with pytest.raises(
        PathClaimedError, match=r"belongs to pipeline events for table db\.events .* of pipeline second;"
    ):
        open_and_plan(second)
    assert second.checkpoint.open_batch() is None
    if not is_planned:
        delivered[0].deliver()
    assert workshop.changes(0).num_rows == 10
