"""Readers of delivered files find every batch that ended without changes, and never stop at its number."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from batch.deliver.delivered import Delivered
from icefloe.errors import TransientError
from icefloe.sinks.change_files import FilesDelivery
from support.pipelines.replay import consumed_rows
from support.pipelines.workspace import Outcome, icefloe
from support.sinks.document_folder import registered

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Moved:
    """A pipeline whose sink was another folder for a while."""

    lab: Delivered
    changes: str

    @property
    def elsewhere(self) -> dict[str, str]:
        return {"type": "files", "path": f"file://{self.lab.folder}/elsewhere"}


@pytest.fixture
def lab(tmp_path: Path) -> Delivered:
    return Delivered.create(tmp_path)


def command(lab: Delivered, name: str, *arguments: object, changes: str, **keys: Any) -> Outcome:
    return icefloe(name, lab.pipeline(engine="local", changes=changes, **keys), *arguments)


def run(lab: Delivered, changes: str, **keys: Any) -> None:
    done = command(lab, "run", changes=changes, **keys)
    assert (done.code, done.err) == (0, "")


def end(lab: Delivered, name: str, *arguments: object, changes: str, **keys: Any) -> None:
    done = command(lab, name, *arguments, "--yes", changes=changes, **keys)
    assert (done.code, done.err) == (0, "")


def ids(lab: Delivered) -> list[int]:
    return sorted(row[0] for row in consumed_rows(lab.output()))


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def fail_before_the_sink(lab: Delivered, changes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose batch is open, and of which nothing is proven."""
    with monkeypatch.context() as patched:
        patched.setattr("icefloe.batch.deliver.deliver_batch.prove_and_publish", killed)
        assert command(lab, "run", changes=changes).code == 130


def fail_at_the_sink(
    lab: Delivered, changes: str, monkeypatch: pytest.MonkeyPatch, at: Callable[..., None] = killed
) -> None:
    """A run whose batch is proven and written, and lacks its manifest."""
    with monkeypatch.context() as patched:
        patched.setattr(FilesDelivery, "finish", at)
        assert command(lab, "run", changes=changes).code == 130


@pytest.mark.parametrize("changes", ["append_only", "upsert"])
def test_readers_go_on_behind_an_abandoned_batch_and_a_moved_cursor(
    lab: Delivered, changes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.append(1)
    run(lab, changes)
    lab.append(2)
    fail_before_the_sink(lab, changes, monkeypatch)
    end(lab, "abandon", changes=changes)
    end(lab, "set-cursor", "--snapshot-id", lab.head(), changes=changes)
    assert [lab.manifest(number)["parts"] for number in (1, 2)] == [[], []]
    lab.append(9)
    run(lab, changes)
    assert ids(lab) == [1, 9]


def test_a_batch_that_a_reset_gives_up_can_no_longer_become_visible(
    lab: Delivered, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.append(1)
    run(lab, "upsert")
    lab.append(2)
    finish = FilesDelivery.finish
    met: list[str] = []

    def late(*given: Any) -> None:
        """Stopped right before the manifest, for as long as a reset takes."""
        monkeypatch.setattr(FilesDelivery, "finish", finish)
        end(lab, "reset", changes="upsert")
        try:
            finish(*given)
        except TransientError as error:
            met.append(error.sentence)
            raise

    monkeypatch.setattr(FilesDelivery, "finish", late)
    command(lab, "run", changes="upsert")
    assert met
    assert lab.manifest(1)["parts"] == []
    assert not list((lab.output() / "batch=1").glob("*.parquet"))
    run(lab, "upsert")
    assert ids(lab) == [1, 2]


def test_a_manifest_that_a_killed_end_did_not_write_comes_before_the_next_one(
    lab: Delivered, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.append(1)
    run(lab, "upsert")
    lab.append(2)
    fail_at_the_sink(lab, "upsert", monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr("icefloe.batch.upkeep.abandoned_batch.try_to_show_ends", killed)
        assert command(lab, "reset", "--yes", changes="upsert").code == 130
    assert not (lab.output() / "batch=1/_manifest.json").exists()
    lab.append(3)
    run(lab, "upsert")
    assert lab.manifest(1)["parts"] == []
    assert ids(lab) == [1, 2, 3]


def test_an_end_is_recorded_if_readers_folder_does_not_answer(lab: Delivered, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.append(1)
    run(lab, "upsert")
    lab.append(2)
    fail_before_the_sink(lab, "upsert", monkeypatch)

    def silent(*_: object, **__: object) -> None:
        raise TransientError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr("icefloe.batch.context.end_batch.show_ends", silent)
        assert command(lab, "abandon", "--yes", changes="upsert").code == 0
    run(lab, "upsert")
    assert ids(lab) == [1, 2]


@pytest.fixture
def moved(lab: Delivered, request: pytest.FixtureRequest) -> Moved:
    """A pipeline that delivered batch 0 to its folder, and 1 to 3 to another one."""
    made = Moved(lab, request.param)
    lab.append(1)
    run(lab, made.changes)
    end(lab, "reset", changes=made.changes, sink=made.elsewhere)
    for number in (2, 3):
        lab.append(number)
        run(lab, made.changes, sink=made.elsewhere)
    return made


@pytest.mark.parametrize("moved", ["each", "upsert"], indirect=True)
def test_a_reset_back_into_a_folder_writes_the_manifests_of_batches_that_were_delivered_elsewhere(moved: Moved) -> None:
    lab, changes = moved.lab, moved.changes
    end(lab, "reset", changes=changes)
    shown = [lab.manifest(number) for number in (1, 2, 3, 4)]
    up_to = lab.manifest(0)["batch"]["up_to_snapshot_id"]
    assert [each["parts"] for each in shown] == [[], [], [], []]
    assert [each["batch"]["after_snapshot_id"] for each in shown] == [up_to, up_to, up_to, None]
    run(lab, changes)
    assert ids(lab) == [1, 2, 3]
    assert command(lab, "verify", changes=changes).code == 0
    traced = command(lab, "trace", "id=2", changes=changes)
    assert (traced.code, traced.err) == (0, "")


@pytest.mark.parametrize("moved", ["each", "upsert"], indirect=True)
def test_manifests_that_are_missing_are_found_by_verify_and_written_by_a_reset(moved: Moved) -> None:
    lab, changes = moved.lab, moved.changes
    end(lab, "reset", changes=changes)
    run(lab, changes)
    for number in (1, 2, 3):
        (lab.output() / f"batch={number}/_manifest.json").unlink()
    found = command(lab, "verify", changes=changes)
    assert (found.code, "readers stop there; icefloe reset events writes it" in found.sentence) == (65, True), found.err
    assert ids(lab) == [1]
    end(lab, "reset", changes=changes)
    run(lab, changes)
    assert command(lab, "verify", changes=changes).code == 0
    assert ids(lab) == [1, 2, 3]


@pytest.mark.parametrize("moved", ["each"], indirect=True)
def test_a_batch_that_was_delivered_elsewhere_is_not_delivered_again_from_its_empty_manifest(moved: Moved) -> None:
    lab = moved.lab
    end(lab, "reset", changes="each")
    target = lab.folder / "sink.yaml"
    target.write_text(f"sink: {{type: documents, folder: {lab.folder}/documents}}\n")
    with registered():
        refused = command(lab, "deliver", "--batches", "2", "--sink", target, changes="each")
    assert (refused.code, "its files are no longer in" in refused.sentence) == (65, True), refused.err
