"""The path of a sink belongs to one pipeline: a batch of another one is refused before it is open."""

from dataclasses import replace
from typing import Any

import pytest

from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError
from icefloe.sinks.change_files import ChangeFiles
from support.pipelines.workshop import Workshop


def test_a_sink_that_holds_a_batch_of_another_pipeline_leaves_no_open_batch(workshop: Workshop) -> None:
    workshop.append(range(10))
    workshop.deliver()
    workshop.append([10])
    mine = workshop.set(name="another")
    with pytest.raises(TerminalError, match=r"batch=0 already holds a whole batch .* of pipeline events .* of its own"):
        mine.prepare()
    assert workshop.session().checkpoint.pipeline() is None
    mine.set(sink={"type": "files", "path": f"file://{workshop.folder}/other"}).deliver()


@pytest.mark.parametrize("takes_over", [False, True])
def test_a_path_of_another_pipeline_is_refused_before_anything_is_written(workshop: Workshop, takes_over: bool) -> None:
    workshop.append(range(10))
    workshop.open()
    before = workshop.stored_objects()
    theirs = workshop.set(name="another").session()
    with pytest.raises(TerminalError, match=r"belongs to pipeline events .* of pipeline another; give each"):
        open_and_plan(replace(theirs, writer=Writer(owner="them"), takes_over=takes_over))
    assert workshop.stored_objects() == before
    elsewhere = workshop.set(sink={"type": "files", "path": f"file://{workshop.folder}/other"})
    assert elsewhere.prepare().plan is not None, "nobody owns its checkpoint"


@pytest.mark.parametrize("is_planned", [False, True], ids=["before either is planned", "after the other's check"])
def test_of_two_pipelines_with_storages_of_their_own_and_one_path_at_once_the_second_is_refused_by_name(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, is_planned: bool
) -> None:
    workshop.append(range(10))
    refuse = ChangeFiles.refuse_other_batch
    delivered: list[Any] = []

    def overtaken(sink: ChangeFiles, *batch: Any, **snapshots: Any) -> None:
        refuse(sink, *batch, **snapshots)
        monkeypatch.undo()
        workshop.set(storage=f"file://{workshop.folder}/storage", name="events")
        delivered.append(workshop.deliver() if is_planned else workshop.open())

    monkeypatch.setattr(ChangeFiles, "refuse_other_batch", overtaken)
    second = workshop.set(storage=f"file://{workshop.folder}/of the second", name="second").session()
    with pytest.raises(TerminalError, match=r"belongs to pipeline events for table db\.events .* of pipeline second;"):
        open_and_plan(second)
    assert second.checkpoint.look().opened is None
    if not is_planned:
        delivered[0].deliver()
    assert workshop.changes(0).num_rows == 10
