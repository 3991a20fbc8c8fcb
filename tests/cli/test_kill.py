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
RELEASE = pytest.mark.extended
"""Of a place to kill a run at: tests/faults tries all of them with threads, some are enough for processes."""
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
        pytest.param(
            "after", 1, "*/checkpoints/events/pipeline.json", id="before the batch is recorded", marks=RELEASE
        ),
        pytest.param("after", 1, "*/checkpoints/events/offsets/0.json", id="before a plan"),
        pytest.param("before", 1, f"{BATCH}/plan.json", id="between tasks and plan", marks=RELEASE),
        pytest.param("after", 1, f"{BATCH}/plan.json", id="before phase one", marks=RELEASE),
        pytest.param("after", 1, f"{BATCH}/*.data", id="between data and commit record"),
        pytest.param("before", 2, RECORD, id="before the second commit record", marks=RELEASE),
        pytest.param("after", 3, RECORD, id="after some commit records"),
        pytest.param("before", 1, f"{BATCH}/ranges.json", id="between the phases"),
        pytest.param("after", 1, f"{BATCH}/extents/*", id="after the extents", marks=RELEASE),
        pytest.param("after", 1, "*/batch=0/part-*", id="after a part"),
        pytest.param("before", 3, f"{BATCH}/results/*", id="between part and result", marks=RELEASE),
        pytest.param("before", 1, "*/batch=0/_manifest.json", id="after all results", marks=RELEASE),
        pytest.param("after", 1, "*/batch=0/_manifest.json", id="between manifest and report", marks=RELEASE),
        pytest.param("before", 1, "*/checkpoints/events/commits/0.json", id="between manifest and commit"),
        pytest.param("after", 1, "*/checkpoints/events/commits/0.json", id="before cleanup", marks=RELEASE),
    ],
)
def test_a_shuffled_batch_survives_a_kill(
    workspace: Workspace, request: pytest.FixtureRequest, when: str, nth: int, pattern: str
) -> None:
    stem = _stem(request)
    pipeline = workspace.pipeline(stem, **SHUFFLED)
    killed(when, nth, pattern, pipeline)
    again = icefloe("run", pipeline)
    assert again.code == 0, again.err
    require_same(workspace, stem, "shuffled")


@pytest.mark.parametrize(
    ("when", "nth", "pattern"),
    [
        pytest.param("after", 1, "*/batch=0/part-*", id="between part and commit record"),
        pytest.param("after", 2, RECORD, id="after some commit records of parts", marks=RELEASE),
        pytest.param(
            "after", 1, "*/batch=0/_manifest.json", id="between manifest and commit of inserts", marks=RELEASE
        ),
    ],
)
def test_an_insert_only_batch_survives_a_kill(
    workspace: Workspace, request: pytest.FixtureRequest, when: str, nth: int, pattern: str
) -> None:
    stem = _stem(request)
    pipeline = workspace.pipeline(stem, **INSERTED)
    killed(when, nth, pattern, pipeline)
    assert icefloe("run", pipeline).code == 0
    require_same(workspace, stem, "inserted")


def test_a_rerun_redoes_only_what_has_no_commit_record(workspace: Workspace) -> None:
    pipeline = workspace.pipeline("only_missing", **SHUFFLED)
    killed("before", 1, f"{BATCH}/ranges.json", pipeline)
    folder = batch_folder(workspace, "only_missing")
    (folder / "1.0").unlink()
    before = {path: path.stat().st_ino for path in folder.glob("[0-9].0")}
    killed("after", 1, "*/commits/0.json", pipeline)
    after = {path: path.stat().st_ino for path in folder.glob("[0-9].0")}
    assert after.keys() - before.keys() == {folder / "1.0"}
    assert before.items() <= after.items()
    require_same(workspace, "only_missing", "shuffled")


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


def test_a_map_output_that_vanished_between_the_phases_is_made_again(workspace: Workspace) -> None:
    pipeline = workspace.pipeline("vanished", **SHUFFLED)
    killed("before", 1, f"{BATCH}/results/*", pipeline)
    folder = batch_folder(workspace, "vanished")
    next(iter(sorted(folder.rglob("*.data")))).unlink()
    assert icefloe("run", pipeline).code == 0
    require_same(workspace, "vanished", "shuffled")


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
    assert report["counts"] == manifest["batch"]["counts"]
    assert report["ranges"] != len(manifest["parts"])
    assert icefloe("verify", workspace.folder / f"{stem}.yaml").code == 0
    assert icefloe("run", workspace.folder / f"{stem}.yaml").document["batch"] is None


def _stem(request: pytest.FixtureRequest) -> str:
    return re.sub(r"\W+", "_", request.node.callspec.id)
