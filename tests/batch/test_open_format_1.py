"""A batch that a release before format 2 opened is finished in its old folder; the next one has format 2."""

import json

import pytest

from icefloe.batch.batch_keys import plan_url
from icefloe.flow import Phase
from support.pipelines.format_1 import to_format_1
from support.pipelines.leftovers import left_in_shuffle
from support.pipelines.workshop import OpenBatch, Workshop


@pytest.fixture
def opened(workshop: Workshop) -> OpenBatch:
    workshop.append(range(20))
    workshop.deliver()
    workshop.update([1, 2], value=2.0)
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE)
    return batch


@pytest.mark.parametrize("keeps_plan", [True, False])
def test_an_open_batch_of_format_1_is_finished_in_its_old_folder(
    workshop: Workshop, opened: OpenBatch, keeps_plan: bool
) -> None:
    folder = to_format_1(workshop, opened)
    if not keeps_plan:
        (folder / "plan.json").unlink()
    resumed = workshop.open()
    assert resumed.plan_url == plan_url(f"file://{folder}")
    assert resumed.plan.version == (1 if keeps_plan else 3)
    report = resumed.deliver()
    assert report.counts["update_after"] == 2
    workshop.require_exact(resumed.plan, workshop.changes(1))
    assert left_in_shuffle(workshop.storage) == []
    workshop.append([99])
    following = workshop.open()
    assert following.plan.version == 3
    assert following.folder.parent.name == following.plan.checkpoint_id
    following.deliver()


def test_the_plan_of_format_1_of_a_pipeline_with_another_sink_is_refused(workshop: Workshop, opened: OpenBatch) -> None:
    folder = to_format_1(workshop, opened)
    plan = json.loads((folder / "plan.json").read_text())
    plan["sink"]["path"] = "file:///elsewhere"
    (folder / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(Exception, match="holds the plan of another batch"):
        workshop.open()
