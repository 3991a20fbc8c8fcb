from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from icefloe.batch.open.find_work import Work
from icefloe.batch.status.pipeline_status import Trouble
from icefloe.errors import TerminalError, TransientError, UsageError
from icefloe.orchestration.tasks import calls as use_cases
from icefloe.orchestration.tasks.snapshot_sensor import TableSnapshotSensor
from icefloe.orchestration.tasks.snapshot_trigger import PipelineSnapshotTrigger
from support.pipelines.pipeline_files import pipeline_from

QUIET = Work(has_open_batch=False, has_new_snapshot=False, head_snapshot_id=3)
NEWS = Work(has_open_batch=False, has_new_snapshot=True, head_snapshot_id=4)
EMPTY = Work(has_open_batch=False, has_new_snapshot=False, head_snapshot_id=None)
BEGIN = Work(has_open_batch=False, has_new_snapshot=True, head_snapshot_id=None)
OPEN = Work(has_open_batch=True, has_new_snapshot=False, head_snapshot_id=3)


def sensor(folder: Path, *, waits: bool = True, poll_interval: str = "30s", **arguments: Any) -> TableSnapshotSensor:
    pipeline = pipeline_from(folder, poll_interval=poll_interval)
    return TableSnapshotSensor(task_id="wait_for_snapshot", pipeline=pipeline, waits=waits, **arguments)


def find(monkeypatch: pytest.MonkeyPatch, found: Work | Exception) -> None:
    def work_of(_: Any) -> Work:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(use_cases, "work_of", work_of)


@pytest.mark.parametrize(("work", "snapshot_id"), [(NEWS, "4"), (OPEN, "3")])
def test_work_that_is_there_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Work, snapshot_id: str
) -> None:
    find(monkeypatch, work)
    assert sensor(tmp_path).execute({}) == {"table": "nyc.flights", "snapshot_id": snapshot_id}


@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        (NEWS, "nyc.flights is at snapshot 4, which flights has not delivered"),
        (OPEN, "flights has an open batch, which is resumed before anything new is read"),
        (QUIET, "nyc.flights is still at snapshot 3, which flights has delivered"),
        (EMPTY, "nyc.flights has no snapshot on branch main yet"),
        (BEGIN, "nyc.flights has no snapshot: flights begins here"),
    ],
)
def test_the_log_says_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, work: Work, sentence: str
) -> None:
    find(monkeypatch, work)
    with caplog.at_level("INFO"):
        sensor(tmp_path, waits=False).execute({})
    assert sentence in caplog.messages


def test_a_configuration_is_refused_before_a_day_is_waited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(conf: object) -> None:
        raise UsageError(f"takes none: {conf}")

    find(monkeypatch, QUIET)
    context = {"dag_run": SimpleNamespace(conf={"x": 1})}
    with pytest.raises(AirflowFailException, match=r"wait_for_snapshot: takes none: \{'x': 1\}"):
        sensor(tmp_path, check_configuration=refuse).execute(context)


def test_a_quiet_table_is_waited_for_in_the_triggerer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find(monkeypatch, QUIET)
    with pytest.raises(TaskDeferred) as deferred:
        sensor(tmp_path, timeout=timedelta(hours=1)).execute({})
    trigger = deferred.value.trigger
    assert isinstance(trigger, PipelineSnapshotTrigger)
    left = datetime.fromisoformat(trigger.deadline) - datetime.now(UTC)
    assert timedelta(minutes=59) < left < timedelta(hours=1)
    assert deferred.value.timeout > timedelta(hours=1), "Airflow's own timeout would fail the run"


@pytest.mark.parametrize(("poll_interval", "seconds"), [("1s", 10), ("30s", 30)])
def test_the_trigger_does_not_fire_before_the_scheduler_knows_that_the_sensor_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, poll_interval: str, seconds: int
) -> None:
    find(monkeypatch, QUIET)
    with pytest.raises(TaskDeferred) as deferred:
        sensor(tmp_path, poll_interval=poll_interval).execute({})
    trigger = deferred.value.trigger
    assert isinstance(trigger, PipelineSnapshotTrigger)
    assert trigger.first_look is not None
    left = datetime.fromisoformat(trigger.first_look) - datetime.now(UTC)
    assert timedelta(seconds=seconds - 5) < left <= timedelta(seconds=seconds)


def test_a_day_is_waited_by_default(tmp_path: Path) -> None:
    assert sensor(tmp_path).timeout == 86400


def test_under_other_schedules_it_checks_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find(monkeypatch, QUIET)
    assert sensor(tmp_path, waits=False).execute({}) == {"table": "nyc.flights", "snapshot_id": None}


def test_an_error_that_stays_fails_the_task_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find(monkeypatch, TerminalError("no such table"))
    with pytest.raises(AirflowFailException, match="wait_for_snapshot: no such table"):
        sensor(tmp_path).execute({})


def test_an_error_that_passes_is_left_to_retries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find(monkeypatch, TransientError("catalog down"))
    with pytest.raises(TransientError, match="catalog down"):
        sensor(tmp_path, waits=False).execute({})


def test_a_sensor_that_waits_fails_no_try_while_the_catalog_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(monkeypatch, TransientError("catalog down"))
    troubles: list[Trouble] = []
    monkeypatch.setattr(use_cases, "record_trouble", lambda _, trouble, **__: troubles.append(trouble))
    with pytest.raises(TaskDeferred):
        sensor(tmp_path).execute({})
    [trouble] = troubles
    assert (trouble.sentence, trouble.phase, trouble.is_final) == ("catalog down", "wait_for_snapshot", False)


def test_it_resumes_with_the_snapshot_as_a_string(tmp_path: Path) -> None:
    event = {"table": "nyc.flights", "branch": "main", "snapshot_id": 2**62, "is_due": True}
    assert sensor(tmp_path).resume({}, event) == {"table": "nyc.flights", "snapshot_id": str(2**62)}


def test_a_quiet_day_is_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        assert sensor(tmp_path).resume({}, {"snapshot_id": None, "is_due": False}) == {
            "table": "nyc.flights",
            "snapshot_id": None,
        }
    assert "stayed quiet" in caplog.text


def test_a_table_without_a_snapshot_may_be_where_a_pipeline_begins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        sensor(tmp_path).resume({}, {"snapshot_id": None, "is_due": True})
    assert "nyc.flights has no snapshot: flights begins here" in caplog.text


@pytest.mark.parametrize(("is_terminal", "error"), [(True, AirflowFailException), (False, TransientError)])
def test_it_resumes_with_the_triggers_error(tmp_path: Path, is_terminal: bool, error: type[Exception]) -> None:
    with pytest.raises(error, match="gone"):
        sensor(tmp_path).resume({}, {"error": "gone", "is_terminal": is_terminal})
