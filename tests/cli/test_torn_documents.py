"""Each document, emptied or cut as a crash of the machine may leave it: one sentence, and a way out that works."""

import shutil
from collections.abc import Callable, Sequence
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


@pytest.fixture
def shuffled(workspace: Workspace) -> Workspace:
    """Batch 0 delivered, and two steps that wait for batch 1, which goes by the shuffle."""
    workspace.pipeline(shuffle=SHUFFLED)
    assert icefloe("run", workspace.folder / "events.yaml").code == 0
    workspace.update(1, 2, value=2.0)
    workspace.delete(3)
    return workspace


def run(workspace: Workspace):
    return icefloe("run", workspace.folder / "events.yaml")


def die(workspace: Workspace, when: str, pattern: str) -> None:
    """A run that is killed at its first write to a URL."""
    forked_module("cli.killed_run", when, 1, pattern, "run", workspace.folder / "events.yaml", "--json")


def checkpoint(workspace: Workspace, name: str) -> Path:
    return workspace.storage() / "checkpoints" / "events" / name


def shuffle_folder(workspace: Workspace, batch: int) -> Path:
    [plan] = (workspace.storage() / "shuffle").rglob(f"{batch}/plan.json")
    return plan.parent


def follow(workspace: Workspace, torn: Path, tear: Tear, deleted: Sequence[Path]) -> None:
    """Tears a document, reads the sentence, deletes what the runbook says, and runs to the right end."""
    tear(torn)
    done = run(workspace)
    assert done.code == 65, done.out
    assert SENTENCE in done.sentence
    assert torn.name in done.sentence
    for path in deleted:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    require_right_end(workspace)


def require_right_end(workspace: Workspace) -> None:
    while (done := run(workspace)).document["batch"] is not None:
        assert done.code == 0, done.err
    verified = icefloe("verify", workspace.folder / "events.yaml")
    assert verified.code == 0, verified.out + verified.err
    assert run(workspace).document["batch"] is None


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
@pytest.mark.parametrize("name", ["plan.json", "ranges.json", "results/*"])
def test_documents_of_a_batch_below_shuffle(shuffled: Workspace, name: str, tear: Tear) -> None:
    die(shuffled, "before", "*/changes/batch=1/_manifest.json")
    folder = shuffle_folder(shuffled, 1)
    follow(shuffled, sorted(folder.glob(name))[0], tear, [folder])


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_the_manifest_of_a_batch_that_is_open(shuffled: Workspace, tear: Tear) -> None:
    die(shuffled, "after", "*/changes/batch=1/_manifest.json")
    manifest = shuffled.output() / "batch=1" / "_manifest.json"
    assert not checkpoint(shuffled, "commits/1.json").exists()
    follow(shuffled, manifest, tear, [manifest])


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_the_manifest_of_the_newest_batch(shuffled: Workspace, tear: Tear) -> None:
    assert run(shuffled).document["batch"] == 1
    manifest = shuffled.output() / "batch=1" / "_manifest.json"
    before = manifest.read_bytes()
    tear(manifest)
    verified = icefloe("verify", shuffled.folder / "events.yaml")
    assert verified.code == 65
    assert SENTENCE in verified.out + verified.err
    checkpoint(shuffled, "commits/1.json").unlink()
    manifest.unlink()
    require_right_end(shuffled)
    assert manifest.read_bytes() == before


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_the_claim_of_the_output(shuffled: Workspace, tear: Tear) -> None:
    claim = shuffled.output() / "_icefloe.json"
    before = claim.read_bytes()
    follow(shuffled, claim, tear, [claim])
    assert claim.read_bytes() == before


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_the_commit_of_the_newest_batch(shuffled: Workspace, tear: Tear) -> None:
    assert run(shuffled).document["batch"] == 1
    commit = checkpoint(shuffled, "commits/1.json")
    follow(shuffled, commit, tear, [commit])
    assert commit.stat().st_size


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_the_offset_of_an_open_batch(shuffled: Workspace, tear: Tear) -> None:
    die(shuffled, "before", "*/changes/batch=1/_manifest.json")
    offset, output = checkpoint(shuffled, "offsets/1.json"), shuffled.output() / "batch=1"
    assert list(output.iterdir())
    shuffled.append(77)
    follow(shuffled, offset, tear, [offset, shuffle_folder(shuffled, 1), output])


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_the_record_of_a_pipeline_that_has_committed_nothing(workspace: Workspace, tear: Tear) -> None:
    die(workspace, "before", "*/changes/batch=0/_manifest.json")
    output = workspace.output()
    deleted = [checkpoint(workspace, ""), shuffle_folder(workspace, 0), output / "batch=0", output / "_icefloe.json"]
    follow(workspace, checkpoint(workspace, "pipeline.json"), tear, deleted)


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_the_report_of_a_batch_and_the_status(shuffled: Workspace, tear: Tear) -> None:
    assert run(shuffled).document["batch"] == 1
    report = checkpoint(shuffled, "reports/1.json")
    tear(report)
    shown = icefloe("show", shuffled.folder / "events.yaml", "--batch", "1")
    assert SENTENCE in shown.sentence
    report.unlink()
    status = checkpoint(shuffled, "status.json")
    if status.exists():
        tear(status)
    require_right_end(shuffled)
