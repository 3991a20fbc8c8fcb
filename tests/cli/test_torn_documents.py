"""Each document, emptied or cut as a crash of the machine may leave it: one sentence, and a way out that works."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.pipelines.workspace import Workspace, forked_module, icefloe

pytestmark = pytest.mark.slow

SENTENCE = "the section on empty or cut documents in docs/runbook.md"
SHUFFLED = {"partitions": 4, "target_size_bytes": 1024, "map_task_bytes": 1024}
Tear = Callable[[Path], object]
TEARS: dict[str, Tear] = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
}
OUTPUT, CHECKPOINT, SHUFFLE = "events/changes", "events/storage/checkpoints/events", "events/storage/shuffle/events/*"
BEFORE, AFTER = "before", "after"
OPEN: dict[str, tuple[int, str, list[str]]] = {
    "the plan": (1, f"{SHUFFLE}/1/plan.json", [f"{SHUFFLE}/1"]),
    "the ranges": (1, f"{SHUFFLE}/1/ranges.json", [f"{SHUFFLE}/1"]),
    "a result": (1, f"{SHUFFLE}/1/results/*", [f"{SHUFFLE}/1"]),
    "the offset": (
        1, f"{CHECKPOINT}/offsets/1.json",
        [f"{CHECKPOINT}/offsets/1.json", f"{SHUFFLE}/1", f"{OUTPUT}/batch=1"],
    ),
    "the claim of the output": (1, f"{OUTPUT}/_icefloe.json", [f"{OUTPUT}/_icefloe.json"]),
    "the record of a pipeline that has committed nothing": (
        0, f"{CHECKPOINT}/pipeline.json",
        [CHECKPOINT, f"{SHUFFLE}/0", f"{OUTPUT}/batch=0", f"{OUTPUT}/_icefloe.json"],
    ),
}  # fmt: skip
"""The number of the batch that is open before its manifest, the document, and what the runbook says to delete."""
COMMITTED = {
    "the manifest": (
        f"{OUTPUT}/batch=1/_manifest.json",
        [f"{CHECKPOINT}/commits/1.json", f"{OUTPUT}/batch=1/_manifest.json"], "verify",
    ),
    "the commit": (f"{CHECKPOINT}/commits/1.json", [f"{CHECKPOINT}/commits/1.json"], "run"),
    "the report": (f"{CHECKPOINT}/reports/1.json", [f"{CHECKPOINT}/reports/1.json"], "show"),
    "the status": (f"{CHECKPOINT}/status.json", [], None),
}  # fmt: skip
"""Documents after the batch, what to delete, and the command that says so."""


@pytest.fixture
def shuffled(workspace: Workspace) -> Workspace:
    """Batch 0 delivered, and two steps that wait for batch 1, which goes by the shuffle."""
    pipeline = workspace.pipeline(shuffle=SHUFFLED)
    assert icefloe("run", pipeline).code == 0
    workspace.update(1, 2, value=2.0)
    workspace.delete(3)
    return workspace


def die(workspace: Workspace, when: str, pattern: str) -> None:
    """A run that is killed at its first write to a URL."""
    forked_module("cli.killed_run", when, 1, pattern, "run", workspace.folder / "events.yaml", "--json")


def delete(workspace: Workspace, patterns: list[str]) -> None:
    for path in [path for pattern in patterns for path in workspace.folder.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def require_right_end(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    while (done := icefloe("run", pipeline)).document["batch"] is not None:
        assert done.code == 0, done.err
    verified = icefloe("verify", pipeline)
    assert verified.code == 0, verified.out + verified.err


def tear_and_follow(workspace: Workspace, tear: Tear, document: str, deleted: list[str], command: str | None) -> None:
    """Tears a document, reads the sentence, deletes what the runbook says, and runs to the right end."""
    torn = sorted(workspace.folder.glob(document))[0]
    tear(torn)
    if command is not None:
        done = icefloe(command, workspace.folder / "events.yaml")
        assert done.code == 65, done.out
        assert SENTENCE in done.sentence
        assert (torn.name if command != "show" else "the report of batch 1") in done.sentence
    delete(workspace, deleted)
    require_right_end(workspace)


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
@pytest.mark.parametrize("name", OPEN)
def test_a_torn_document_of_an_open_batch(
    workspace: Workspace, request: pytest.FixtureRequest, name: str, tear: Tear
) -> None:
    number, document, deleted = OPEN[name]
    if number:
        request.getfixturevalue("shuffled")
    die(workspace, BEFORE, f"*/changes/batch={number}/_manifest.json")
    if name == "the offset":
        workspace.append(77)
    tear_and_follow(workspace, tear, document, deleted, "run")


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_the_manifest_of_a_batch_that_is_open(shuffled: Workspace, tear: Tear) -> None:
    die(shuffled, AFTER, "*/changes/batch=1/_manifest.json")
    assert not (shuffled.folder / CHECKPOINT / "commits/1.json").exists()
    manifest = f"{OUTPUT}/batch=1/_manifest.json"
    tear_and_follow(shuffled, tear, manifest, [manifest], "run")


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
@pytest.mark.parametrize("name", COMMITTED)
def test_a_torn_document_of_the_newest_batch(shuffled: Workspace, name: str, tear: Tear) -> None:
    assert icefloe("run", shuffled.folder / "events.yaml").document["batch"] == 1
    document, deleted, command = COMMITTED[name]
    manifest = shuffled.output() / "batch=1" / "_manifest.json"
    before = manifest.read_bytes()
    tear_and_follow(shuffled, tear, document, deleted, command)
    assert manifest.read_bytes() == before
