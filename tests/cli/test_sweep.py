import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import TransientError
from support.pipelines.leftovers import left_in_shuffle
from support.pipelines.sweeping import aged
from support.pipelines.workspace import Workspace, icefloe
from support.sinks.document_folder import DocumentFolder, registered


@pytest.fixture
def url(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> str:
    """A storage with the folder of a batch that was committed by a run that died before its cleanup."""
    with monkeypatch.context() as patched:
        patched.setattr("icefloe.batch.deliver.commit_batch.clean_up_finished", lambda _: 0)
        assert icefloe("run", workspace.folder / "events.yaml").code == 0
    assert left_in_shuffle(workspace.storage()) != []
    return f"file://{workspace.storage()}"


def test_a_sweep_deletes_what_a_dead_run_left_and_nothing_the_second_time(workspace: Workspace, url: str) -> None:
    count = len(left_in_shuffle(workspace.storage()))
    done = icefloe("sweep", url, "--yes")
    assert (done.code, done.err) == (0, "")
    assert f"{count} files were deleted" in done.out
    assert "the batch has ended" in done.out
    assert left_in_shuffle(workspace.storage()) == []
    again = icefloe("sweep", url, "--yes")
    assert (again.code, again.out.splitlines()) == (0, ["there is nothing to delete", "0 files were deleted"])
    assert icefloe("run", workspace.folder / "events.yaml").document["batch"] is None


def test_a_dry_run_shows_and_keeps(workspace: Workspace, url: str) -> None:
    before = workspace.files()
    done = icefloe("sweep", url, "--dry-run", "--json")
    assert workspace.files() - before <= {
        workspace.storage() / "shuffle/_clock.probes",
        workspace.output() / "_clock.probes",
    }
    [leftover] = done.document["leftovers"]
    assert (leftover["pipeline"], leftover["batch"], leftover["reason"]) == ("events", 0, "ended")
    assert leftover["files"] == len(left_in_shuffle(workspace.storage()))
    assert (done.code, done.document["deleted_files"], len(done.out.splitlines())) == (0, 0, 1)


def test_nothing_is_deleted_if_nobody_can_be_asked(workspace: Workspace, url: str) -> None:
    before = left_in_shuffle(workspace.storage())
    done = icefloe("sweep", url)
    assert done.code == 2
    assert done.sentence.startswith("nothing was changed, because there is no terminal to ask on")
    assert left_in_shuffle(workspace.storage()) == before


@pytest.mark.parametrize(("answer", "is_deleted"), [("yes\n", True), ("n\n", False), ("\n", False)])
def test_the_answer_decides(
    workspace: Workspace, url: str, monkeypatch: pytest.MonkeyPatch, answer: str, is_deleted: bool
) -> None:
    stdin = io.StringIO(answer)
    monkeypatch.setattr(stdin, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", stdin)
    count = len(left_in_shuffle(workspace.storage()))
    done = icefloe("sweep", url)
    assert done.code == 0
    assert f"delete {count} files, " in done.err
    assert (left_in_shuffle(workspace.storage()) == []) is is_deleted


def test_a_checkpoint_that_cannot_be_read_fails_the_sweep_and_keeps_its_files(workspace: Workspace, url: str) -> None:
    (workspace.storage() / "checkpoints/events/owners/0.json").write_text("")
    before = left_in_shuffle(workspace.storage())
    aged(before)
    done = icefloe("sweep", url, "--yes", "--json")
    assert done.code == 65
    assert "owners/0.json" in done.sentence
    assert done.document["problems"] == [done.sentence]
    assert left_in_shuffle(workspace.storage()) == before


def test_a_checkpoint_that_does_not_answer_is_worth_another_try(
    workspace: Workspace, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        raise TransientError("no answer")

    monkeypatch.setattr(Checkpoint, "owner", fail)
    assert icefloe("sweep", url, "--yes").code == 75
    assert left_in_shuffle(workspace.storage()) != []


@pytest.mark.parametrize(
    ("age", "words"),
    [
        ("59m", "is less than an hour"),
        ("soon", "is not a duration such as 30s, 5m or 1h"),
        ("999999d", "is too long: expected less than 100000d"),
    ],
)
def test_an_age_that_could_take_files_of_a_living_run_is_refused(workspace: Workspace, age: str, words: str) -> None:
    done = icefloe("sweep", f"file://{workspace.storage()}", "--older-than", age)
    assert done.code == 2
    assert words in done.err


def test_a_storage_that_is_no_url_is_refused() -> None:
    done = icefloe("sweep", "/var/icefloe", "--dry-run")
    assert (done.code, "is not the URL of a store" in done.sentence) == (65, True)


class Marked(DocumentFolder):
    keeps_deletions = True
    purged = 0

    def purge(self, *, before: datetime, dry_run: bool = False) -> int:
        assert timedelta(days=29) < datetime.now(UTC) - before < timedelta(days=31)
        if not dry_run:
            Marked.purged += 7
        return 7


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Path]:
    """A pipeline file whose sink has marks, and no batch yet."""
    Marked.purged = 0
    with registered(), mock.patch("support.sinks.document_folder.DocumentFolder", Marked):
        lab = Workspace.create(tmp_path)
        lab.append(1)
        yield lab.pipeline(sink={"type": "documents", "folder": str(tmp_path / "documents")})


@pytest.mark.parametrize(("argument", "purged"), [("--dry-run", 0), ("--yes", 7)])
def test_marks_are_removed_if_somebody_agrees(marked: Path, argument: str, purged: int) -> None:
    early = icefloe("purge", marked, "--older-than", "30d", argument)
    assert (early.code, "or got no batch yet, so there is nothing to purge" in early.err) == (2, True)
    assert icefloe("run", marked).code == 0
    done = icefloe("purge", marked, "--older-than", "30d", argument, "--json")
    assert (done.code, done.document) == (0, {"pipeline": "events", "found": 7, "purged": purged})
    assert Marked.purged == purged


def test_marks_of_another_owner_or_of_another_pipelines_sink_stay(
    marked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICEFLOE_OWNER", "airflow-one")
    assert icefloe("run", marked).code == 0
    with monkeypatch.context() as patches:
        patches.setenv("ICEFLOE_OWNER", "airflow-two")
        refused = icefloe("purge", marked, "--older-than", "30d", "--yes")
        assert (refused.code, "airflow-one" in refused.err) == (65, True)
    (tmp_path / "documents" / "owner.json").write_text('"the owner who took it over"')
    refused = icefloe("purge", marked, "--older-than", "30d", "--yes")
    assert (refused.code, "is another's" in refused.err) == (65, True)
    assert Marked.purged == 0


def test_a_sink_without_marks_is_named(tmp_path: Path) -> None:
    refused = icefloe("purge", Workspace.create(tmp_path).pipeline(), "--older-than", "30d")
    assert (refused.code, "a sink of type files keeps no marks" in refused.err) == (2, True)
