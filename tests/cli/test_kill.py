"""A run that is killed at any point, then run again, delivers what an undisturbed run of the same table does."""

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from icefloe.storage.location import open_store
from support.fakes.stores import flip_byte
from support.pipelines.workspace import Outcome, Workspace, forked_module, icefloe

pytestmark = pytest.mark.slow

BATCH = "*/shuffle/events/*/0"
RECORD = f"{BATCH}/[0-9].0"
SHUFFLED: dict[str, Any] = {
    "initial_load": "from_earliest",
    "shuffle": {"partitions": 8, "target_size_bytes": 1024, "map_task_bytes": 1024},
}
INSERTED: dict[str, Any] = {"initial_load": "full", "shuffle": {"map_task_bytes": 1024}}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A table of many small files, loaded once by each route without any trouble."""
    made = Workspace.create(tmp_path_factory.mktemp("killed"))
    for start in range(0, 250, 50):
        made.append(*range(start, start + 50))
    made.update(*range(0, 250, 10), value=2.0)
    made.delete(5, 55, 105)
    for stem, keys in (("shuffled", SHUFFLED), ("inserted", INSERTED)):
        done = icefloe("run", made.pipeline(stem, **keys))
        assert done.code == 0
    assert made.manifest(0, "shuffled")["batch"]["steps"] == 7
    assert len(made.delivered(0, "shuffled")) > 2
    assert len(made.delivered(0, "inserted")) > 2
    return made


def killed(when: str, nth: int, pattern: str, pipeline: Path) -> Outcome:
    done = forked_module("cli.killed_run", when, nth, pattern, "run", pipeline, "--json")
    assert done.code == -signal.SIGKILL, done.err
    assert done.out == ""
    return done


def batch_folder(workspace: Workspace, stem: str) -> Path:
    """The files that pass between the phases of its first batch; the folder between is called after the checkpoint."""
    [folder] = (workspace.storage(stem) / "shuffle" / "events").glob("*/0")
    return folder


def require_same(workspace: Workspace, stem: str, undisturbed: str) -> None:
    """The same parts with the same rows, and nothing left to do."""
    assert workspace.manifest(0, stem) == workspace.manifest(0, undisturbed)
    assert workspace.delivered(0, stem) == workspace.delivered(0, undisturbed)
    assert sorted(path.name for path in workspace.output(stem).iterdir()) == ["_icefloe.json", "batch=0"]
    assert icefloe("run", workspace.folder / f"{stem}.yaml").document["batch"] is None


@pytest.mark.parametrize(
    ("when", "nth", "pattern"),
    [
        pytest.param("after", 1, "*/checkpoints/events/offsets/0.json", id="before a plan"),
        pytest.param("after", 1, f"{BATCH}/*.data", id="between data and commit record"),
        pytest.param("after", 3, RECORD, id="after some commit records"),
        pytest.param("before", 1, f"{BATCH}/ranges.json", id="between the phases"),
        pytest.param("after", 1, "*/batch=0/part-*", id="after a part"),
        pytest.param("before", 1, "*/checkpoints/events/commits/0.json", id="between manifest and commit"),
    ],
)
def test_a_batch_survives_a_kill(
    workspace: Workspace, request: pytest.FixtureRequest, when: str, nth: int, pattern: str
) -> None:
    stem = re.sub(r"\W+", "_", request.node.callspec.id)
    routes = {"shuffled": SHUFFLED, "inserted": INSERTED} if "part" in pattern else {"shuffled": SHUFFLED}
    for route, keys in routes.items():
        pipeline = workspace.pipeline(f"{stem}_{route}", **keys)
        killed(when, nth, pattern, pipeline)
        again = icefloe("run", pipeline)
        assert again.code == 0, again.err
        require_same(workspace, f"{stem}_{route}", route)


@pytest.mark.parametrize("part", [0.1, 0.9], ids=["index", "blocks"])
def test_a_damaged_byte_between_the_phases_costs_one_map_task(workspace: Workspace, part: float) -> None:
    stem = f"damaged_{round(10 * part)}"
    pipeline = workspace.pipeline(stem, **SHUFFLED)
    killed("before", 1, f"{BATCH}/ranges.json", pipeline)
    folder = batch_folder(workspace, stem)
    store = open_store(f"file://{folder}")
    [key] = [found.key for found in store.list("") if re.fullmatch(r"\D*1\b.*\.data", found.key)]
    size_bytes = store.size(key)
    assert size_bytes is not None
    flip_byte(store, key, round(size_bytes * part))
    killed("after", 1, "*/commits/0.json", pipeline)
    assert {path.name for path in folder.glob("*.void")} == {"1.0.void"}
    assert {path.name for path in folder.glob("[0-9].1")} == {"1.1"}
    require_same(workspace, stem, "shuffled")


def test_a_whole_batch_is_kept_if_its_rerun_with_other_memory_makes_other_ranges(workspace: Workspace) -> None:
    stem, shuffle = "other_memory", {"partitions": 64, "target_size_bytes": 4096}
    killed("after", 1, "*/batch=0/_manifest.json", workspace.pipeline(stem, **{**SHUFFLED, "shuffle": shuffle}))
    delivered, manifest = workspace.delivered(0, stem), workspace.manifest(0, stem)
    shutil.rmtree(batch_folder(workspace, stem))
    again = icefloe("run", workspace.pipeline(stem, **{**SHUFFLED, "shuffle": {**shuffle, "memory_bytes": 4096}}))
    assert again.code == 0, again.err
    assert (workspace.delivered(0, stem), workspace.manifest(0, stem)) == (delivered, manifest)
    assert len(list((workspace.output(stem) / "batch=0").glob("part-*"))) == len(delivered)
    report = json.loads((workspace.storage(stem) / "checkpoints/events/reports/0.json").read_text())
    assert report["batch"] == manifest["batch"]
    assert report["ranges"] != len(manifest["parts"])
    assert icefloe("verify", workspace.folder / f"{stem}.yaml").code == 0
    assert icefloe("run", workspace.folder / f"{stem}.yaml").document["batch"] is None
