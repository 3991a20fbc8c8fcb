"""Readers of delivered files find every batch that ended without changes, and never stop at its number."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batch.deliver.delivered import Delivered
from icefloe.errors import TransientError
from icefloe.sinks.files_delivery import FilesDelivery
from support.pipelines.delivered_state import consumed_rows
from support.pipelines.workspace import Outcome, icefloe


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


@pytest.mark.parametrize("changes", ["append_only", "upsert"])
def test_readers_begin_again_behind_a_reset(lab: Delivered, changes: str) -> None:
    lab.append(1, 2)
    run(lab, changes)
    end(lab, "reset", changes=changes)
    assert lab.manifest(1)["batch"]["after_snapshot_id"] is None
    assert ids(lab) == []
    lab.append(9)
    run(lab, changes)
    assert ids(lab) == [1, 2, 9]
    assert command(lab, "verify", changes=changes).code == 0


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
        patched.setattr("icefloe.batch.operations.half_delivered.try_to_show_ends", killed)
        assert command(lab, "reset", "--yes", changes="upsert").code == 130
    assert not (lab.output() / "batch=1/_manifest.json").exists()
    lab.append(3)
    run(lab, "upsert")
    assert lab.manifest(1)["parts"] == []
    assert ids(lab) == [1, 2, 3]


def test_several_ends_that_earlier_releases_did_not_show_come_with_the_next_batch(lab: Delivered) -> None:
    lab.append(1)
    run(lab, "upsert")
    for number in (1, 2):
        lab.append(number + 10)
        end(lab, "set-cursor", "--snapshot-id", lab.head(), changes="upsert")
        (lab.output() / f"batch={number}/_manifest.json").unlink()
    lab.append(9)
    run(lab, "upsert")
    assert ids(lab) == [1, 9]


def test_an_end_that_an_earlier_release_did_not_show_is_found_by_verify_and_written_by_deliver(lab: Delivered) -> None:
    lab.append(1)
    run(lab, "upsert")
    end(lab, "reset", changes="upsert")
    (lab.output() / "batch=1/_manifest.json").unlink()
    for number in (2, 3):
        lab.append(number)
        run(lab, "upsert")
        (lab.output() / "batch=1/_manifest.json").unlink(missing_ok=True)
    found = command(lab, "verify", changes="upsert")
    assert (found.code, ids(lab)) == (65, [1])
    assert found.sentence.endswith("readers stop there; icefloe deliver events --batches 1 writes it")
    written = command(lab, "deliver", "--batches", "1", changes="upsert")
    assert (written.code, written.err) == (0, "")
    assert command(lab, "verify", changes="upsert").code == 0
    assert ids(lab) == [1, 2, 3]


def test_an_end_is_recorded_if_readers_folder_does_not_answer(lab: Delivered, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.append(1)
    run(lab, "upsert")
    lab.append(2)
    fail_before_the_sink(lab, "upsert", monkeypatch)

    def silent(*_: object, **__: object) -> None:
        raise TransientError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr("icefloe.batch.ends.shown_ends._missing", silent)
        assert command(lab, "abandon", "--yes", changes="upsert").code == 0
    run(lab, "upsert")
    assert ids(lab) == [1, 2]


def test_a_cursor_is_not_moved_into_the_folder_of_another_pipeline(lab: Delivered) -> None:
    lab.append(1)
    run(lab, "upsert")
    (lab.output() / "batch=0/_manifest.json").unlink()
    folder = {"sink": {"type": "files", "path": f"file://{lab.output()}"}}
    other = icefloe(
        "set-cursor", lab.pipeline("other", name="other", engine="local", changes="upsert", **folder),
        "--snapshot-id", lab.head(), "--yes",
    )  # fmt: skip
    assert other.code == 65
    assert "belongs to pipeline events" in other.sentence
    assert not (lab.storage("other") / "checkpoints/other/offsets").exists()
