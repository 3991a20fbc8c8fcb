"""Whatever the order in which a disk takes the writes of a run, nothing is there without what it builds on."""

from pathlib import Path

import pytest

from storage.power_loss import Disk, Syscall, recorded
from support.pipelines.workspace import ROOT, Workspace

pytestmark = [pytest.mark.slow, pytest.mark.extended]

MAKES_VISIBLE = ("link", "linkat", "rename", "renameat", "renameat2")
BUILDS_ON_ALL = ("*/offsets/0.json", "*/plan.json", "*/ranges.json", "*/_manifest.json", "*/commits/0.json")
ENVIRON = {"PYTHONPATH": str(ROOT / "plugins"), "PYTHONDONTWRITEBYTECODE": "1"}


def visible(calls: list[Syscall], below: Path) -> list[Syscall]:
    return [call for call in calls if call.name in MAKES_VISIBLE and call.paths[-1].startswith(f"{below}/")]


@pytest.mark.parametrize("route", ["insert_only", "shuffle"])
def test_at_no_moment_of_a_run_does_anything_build_on_what_a_loss_of_power_would_take(tmp_path: Path, route: str):
    workspace = Workspace.create(tmp_path)
    workspace.append(*range(10))
    if route == "shuffle":
        workspace.update(1, 2, value=2.0)
        pipeline = workspace.pipeline(initial_load="from_earliest", shuffle={"partitions": 4})
    else:
        pipeline = workspace.pipeline()
    calls = recorded(["-m", "icefloe", "run", str(pipeline), "--json"], tmp_path / "trace", ENVIRON)
    place = tmp_path / "events"
    seen = {Path(call.paths[-1]).relative_to(place).as_posix() for call in visible(calls, place)}
    assert {"storage/checkpoints/events/commits/0.json", "changes/batch=0/_manifest.json"} <= seen
    assert {"storage/checkpoints/events/pipeline.json", "changes/batch=0/part-00000.parquet"} <= seen
    disk = Disk(below=place)
    own = {id(call) for call in visible(calls, place)}
    for call in calls:
        if id(call) in own:
            assert disk.is_whole(call.paths[0]), f"{call.paths[-1]} would be empty or cut"
            if any(Path(call.paths[-1]).match(pattern) for pattern in BUILDS_ON_ALL):
                assert disk.lost() == [], f"{call.paths[-1]} would be there without these"
        disk.apply(call)
    assert disk.lost() == []
