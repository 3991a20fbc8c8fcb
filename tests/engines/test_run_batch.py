import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.phases import run_phase
from icefloe.batch.run_settings import Credentials
from icefloe.batch.status import PipelineStatus
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.engines.local import LocalEngine
from icefloe.engines.phase_runner import PhaseRunner
from icefloe.engines.run_batch import run_batch
from icefloe.engines.spark.submit import SparkSubmit
from icefloe.errors import TerminalError, TransientError
from icefloe.flow import Phase
from icefloe.pipeline.model import Pipeline
from support.pipelines.leftovers import left_in_shuffle
from support.pipelines.workspace import Workspace
from support.sinks.document_folder import DocumentFolder, registered


class FailingPhases(PhaseRunner):
    """Fails in one phase, once."""

    def __init__(self, session: PipelineSession, phase: Phase) -> None:
        super().__init__(pipeline=session.pipeline)
        self._left = [phase]

    def run(self, phase: Phase, reference: BatchReference) -> None:
        if phase in self._left:
            self._left.remove(phase)
            raise TransientError("a worker was lost")
        super().run(phase, reference)


class Recorder:
    """Remembers what started and ended, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.events.append(f"+{name}")
        yield
        self.events.append(f"-{name}")


class Deleter:
    """Deletes files of the open batch as a task starts.

    Args:
        task: as this task starts.
        folder: where they are.
        files: pattern below it.
        times: at most so often.
    """

    def __init__(self, folder: Path, task: str, files: str, *, times: int = 1) -> None:
        self._folder, self._task, self._files, self._left = folder, task, files, times

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        if name == self._task and self._left:
            self._left -= 1
            found = list(self._folder.glob(self._files))
            assert found
            for path in found:
                path.unlink() if path.is_file() else shutil.rmtree(path)
        yield


def session_of(workspace: Workspace) -> PipelineSession:
    pipeline = Pipeline.load(workspace.folder / "events.yaml")
    return PipelineSession.open(pipeline, credentials=Credentials(), environ=os.environ)


def status_of(session: PipelineSession) -> PipelineStatus:
    found = PipelineStatus.load(session.checkpoint)
    assert found is not None
    return found


def test_the_observer_sees_the_tasks_of_the_route_that_was_taken(workspace: Workspace) -> None:
    inserted, shuffled, nothing = Recorder(), Recorder(), Recorder()
    run_batch(session_of(workspace), environ={}, observe=inserted)
    workspace.update(1, value=2.0)
    run_batch(session_of(workspace), environ={}, observe=shuffled)
    run_batch(session_of(workspace), environ={}, observe=nothing)
    tasks = [name for name in inserted.events if name.startswith("+")]
    assert tasks == ["+plan", "+insert_only", "+commit", "+cleanup"]
    tasks = [name for name in shuffled.events if name.startswith("-")]
    assert tasks == ["-plan", "-shuffle_write", "-coalesce", "-shuffle_read", "-commit", "-cleanup"]
    assert nothing.events == ["+plan", "-plan"]


@pytest.mark.parametrize("phase", [Phase.SHUFFLE_WRITE, Phase.SHUFFLE_READ])
def test_a_batch_whose_phase_failed_is_resumed(workspace: Workspace, phase: Phase) -> None:
    run_batch(session_of(workspace), environ={})
    workspace.update(1, value=2.0)
    session = session_of(workspace)
    phases = FailingPhases(session, phase)
    with pytest.raises(TransientError, match="a worker was lost"):
        run_batch(session, environ={}, phases=phases)
    workspace.append(11)
    done = run_batch(session_of(workspace), environ={}, phases=phases)
    assert done.report is not None
    batch = done.report.batch
    assert (batch.batch_number, batch.counts["insert"], batch.counts["update_after"]) == (1, 0, 1)


SHUFFLE = "storage/shuffle/events/*/1"
"""Folder of batch 1."""


@pytest.mark.parametrize(
    ("task", "files"),
    [(task, f"{SHUFFLE}/*") for task in ("shuffle_write", "coalesce", "shuffle_read", "commit")]
    + [("shuffle_read", f"{SHUFFLE}/ranges.json"), ("commit", "changes/batch=1/*.parquet")],
)
def test_files_of_the_batch_that_are_deleted_in_the_middle_are_made_again_by_the_same_run(
    workspace: Workspace, task: str, files: str
) -> None:
    run_batch(session_of(workspace), environ={})
    workspace.update(1, value=2.0)
    done = run_batch(session_of(workspace), environ={}, observe=Deleter(workspace.folder / "events", task, files))
    assert done.report is not None
    assert (done.report.batch.batch_number, done.report.batch.counts["update_after"]) == (1, 1)
    assert status_of(session_of(workspace)).trouble is None
    assert verify_batches(session_of(workspace)).is_equal
    assert left_in_shuffle(workspace.storage()) == []


def test_phases_that_cannot_read_the_table_are_refused_before_a_batch_is_opened(workspace: Workspace) -> None:
    class Elsewhere(FailingPhases):
        def check_session(self, session: PipelineSession) -> None:
            raise TerminalError(f"no worker can read {session.table.metadata.location}")

    session = session_of(workspace)
    with pytest.raises(TerminalError, match=f"no worker can read file://{workspace.folder}/warehouse/"):
        run_batch(session, environ={}, phases=Elsewhere(session, Phase.INSERT_ONLY))
    assert session.checkpoint.pipeline() is None


def test_a_backfill_that_died_before_its_cleanup_is_cleaned_up_when_it_is_started_again(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = RequestedRange(up_to_snapshot_id=workspace.head())
    with monkeypatch.context() as dying:
        dying.setattr("icefloe.engines.run_batch.try_to_clean_up", lambda _: None)
        run_batch(session_of(workspace), request, environ={})
    assert left_in_shuffle(workspace.storage()) != []
    assert run_batch(session_of(workspace), request, environ={}).was_committed_before
    assert left_in_shuffle(workspace.storage()) == []


def test_the_engine_auto_runs_small_batches_without_spark(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Phase] = []
    monkeypatch.setattr(SparkSubmit, "check_engine", lambda _: None)
    monkeypatch.setattr(SparkSubmit, "run", lambda _, phase, __: asked.append(phase))
    workspace.pipeline(engine="auto")
    assert run_batch(session_of(workspace), environ=os.environ).report is not None
    monkeypatch.setattr("icefloe.engines.phase_runner.SMALL_BYTES", 1)
    workspace.append(100)
    with pytest.raises(TransientError, match="have no valid output"):
        run_batch(session_of(workspace), environ=os.environ)
    # Once more from the plan on, as the parts are missing.
    assert asked == [Phase.INSERT_ONLY] * 2


@pytest.mark.parametrize(
    ("small_bytes", "abilities", "delivered"),
    [
        (2**20, {}, []),
        (1, {"commits_once": True}, []),
        (1, {}, [Phase.DELIVER]),
        (1, {"commits_once": True, "needs_spark": True}, [Phase.DELIVER]),
    ],
    ids=["small", "in one commit", "large", "written by Spark"],
)
def test_a_batch_that_is_small_or_arrives_by_one_commit_is_delivered_without_spark(
    workspace: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    small_bytes: int,
    abilities: dict[str, bool],
    delivered: list[Phase],
) -> None:
    asked: list[Phase] = []

    def run(_: SparkSubmit, phase: Phase, reference: BatchReference) -> None:
        asked.append(phase)
        run_phase(phase, reference, LocalEngine())

    monkeypatch.setattr(SparkSubmit, "check_engine", lambda _: None)
    monkeypatch.setattr(SparkSubmit, "run", run)
    monkeypatch.setattr("icefloe.engines.phase_runner.SMALL_BYTES", small_bytes)
    for name, value in abilities.items():
        monkeypatch.setattr(DocumentFolder, name, value)
    with registered():
        workspace.pipeline(engine="spark", sink={"type": "documents", "folder": f"{tmp_path}/documents"})
        assert run_batch(session_of(workspace), environ=os.environ).report is not None
    assert asked == [Phase.INSERT_ONLY, *delivered]
    assert len(DocumentFolder(tmp_path / "documents").documents()) == 10


def test_the_status_names_a_failed_phase_until_the_batch_is_committed(workspace: Workspace) -> None:
    session = session_of(workspace)
    with pytest.raises(TransientError):
        run_batch(session, environ=os.environ, phases=FailingPhases(session, Phase.INSERT_ONLY))
    failed = status_of(session)
    assert failed.trouble is not None
    assert (failed.trouble.sentence, failed.trouble.phase, failed.trouble.is_final) == (
        "a worker was lost", "insert_only", False,
    )  # fmt: skip
    assert failed.open_batch == 0
    run_batch(session_of(workspace), environ=os.environ)
    done = status_of(session)
    assert (done.trouble, done.open_batch, done.last_batch, len(done.recent)) == (None, None, 0, 1)


def test_commits_that_came_while_a_batch_ran_count_as_lag(workspace: Workspace) -> None:
    session = session_of(workspace)

    class Meanwhile(FailingPhases):
        def run(self, phase: Phase, reference: BatchReference) -> None:
            workspace.append(100)
            super().run(phase, reference)

    run_batch(session, environ=os.environ, phases=Meanwhile(session, Phase.SHUFFLE_READ))
    done = status_of(session)
    assert (done.lag_snapshots, done.head_snapshot_id) == (1, workspace.head())
