"""A batch that a release before format 2 opened is finished in its old folder; the next one has format 2."""

import json
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.batch_keys import plan_url
from icefloe.flow import Phase
from support.pipelines.leftovers import left_in_shuffle
from support.pipelines.workshop import OpenBatch, Workshop

GOLDEN = Path(__file__).parents[1] / "checkpoint/golden/format-1"


def keys_of(golden: str) -> list[str]:
    return list(json.loads((GOLDEN / golden).read_text()))


def downgrade(path: Path, golden: str, values: dict[str, Any]) -> None:
    """Writes a document with exactly the keys that format 1 has, the version among them."""
    keys = keys_of(golden)
    assert set(keys) <= values.keys(), set(keys) - values.keys()
    path.write_text(json.dumps({**{key: values[key] for key in keys}, "version": 1}))


def to_format_1(workshop: Workshop, batch: OpenBatch) -> Path:
    """Makes of an open batch 1 what the release before would have left; the folder of that release."""
    checkpoint = workshop.folder / "storage/checkpoints/events"
    for number in (0, 1):
        document = json.loads((checkpoint / f"offsets/{number}.json").read_text())
        spec = document["spec"]
        sizes = {
            "max_steps_per_batch": 100, "max_bytes_per_batch": 2**40, "shuffle.partitions": spec["partitions"],
            "shuffle.target_size_bytes": spec["target_size_bytes"], "shuffle.map_task_bytes": spec["map_task_bytes"],
            "sink.target_file_bytes": spec["target_file_bytes"],
        }  # fmt: skip
        values = {**document, **spec, "tuning_configuration": sizes}
        downgrade(checkpoint / f"offsets/{number}.json", "checkpoints/events/offsets/1.json", values)
    for name in ("pipeline.json", "commits/0.json"):
        downgrade(checkpoint / name, f"checkpoints/events/{name}", json.loads((checkpoint / name).read_text()))
    (checkpoint / "owners/0.json").unlink()
    (workshop.folder / "changes/_icefloe.json").unlink()

    folder = workshop.folder / "storage/shuffle/events/1"
    batch.folder.rename(folder)
    for task in (folder / "tasks").iterdir():
        task.rename(task.with_name(f"{task.name[:5]}.json"))
    places = {
        "checkpoint_url": f"file://{checkpoint}", "batch_url": f"file://{folder}", "memory_bytes": 2**30,
        "on_summary_mismatch": "fail",
    }  # fmt: skip
    plan = {**json.loads((folder / "plan.json").read_text()), **places}
    plan["sink"] = {**plan["sink"], "conn_id": None}
    downgrade(folder / "plan.json", "shuffle/events/1/plan.json", plan)
    return folder


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
    assert resumed.plan.version == (1 if keeps_plan else 2)
    report = resumed.deliver()
    assert report.counts["update_after"] == 2
    workshop.require_exact(resumed.plan, workshop.changes(1))
    assert left_in_shuffle(workshop.storage) == []
    workshop.append([99])
    following = workshop.open()
    assert following.plan.version == 2
    assert following.folder.parent.name == following.plan.checkpoint_id
    following.deliver()


def test_the_plan_of_format_1_of_a_pipeline_with_another_sink_is_refused(workshop: Workshop, opened: OpenBatch) -> None:
    folder = to_format_1(workshop, opened)
    plan = json.loads((folder / "plan.json").read_text())
    plan["sink"]["path"] = "file:///elsewhere"
    (folder / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(Exception, match="holds the plan of another batch"):
        workshop.open()
