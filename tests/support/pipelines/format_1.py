"""An open batch as the release before format 2 would have left it."""

import json
from pathlib import Path
from typing import Any

from support.pipelines.workshop import OpenBatch, Workshop

__all__ = ["keys_of", "to_format_1"]

GOLDEN = Path(__file__).parents[2] / "checkpoint/golden/format-1"


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
