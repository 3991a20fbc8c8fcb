from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from icefloe.batch.open.next_batch import Work
from icefloe.errors import TerminalError, TransientError, UsageError
from icefloe.orchestration.tasks import calls as use_cases
from icefloe.orchestration.tasks.snapshot_sensor import TableSnapshotSensor
from orchestration.tasks.looks import BEGIN, EMPTY, NEWS, OPEN, QUIET, finding
from support.pipelines.pipeline_files import pipeline_from


def sensor(folder: Path, *, waits: bool = True, poll_interval: str = "30s", **arguments: Any) -> TableSnapshotSensor:
    pipeline = pipeline_from(folder, poll_interval=poll_interval)
    return TableSnapshotSensor(task_id="wait_for_snapshot", pipeline=pipeline, waits=waits, **arguments)


def find(monkeypatch: pytest.MonkeyPatch, found: Work | Exception) -> None:
    monkeypatch.setattr(use_cases, "work_of", finding(found))


@pytest.mark.parametrize(
    ("work", "snapshot_id", "sentence"),
    [
        (NEWS, "4", "flights has new snapshots; nyc.flights has snapshot 4"),
        (OPEN, "3", "flights has an open batch; nyc.flights has snapshot 3"),
        (QUIET, None, "flights has no news; nyc.flights has snapshot 3"),
        (EMPTY, None, "flights has no news; nyc.flights has no snapshot"),
        (BEGIN, None, "flights has new snapshots; nyc.flights has no snapshot"),
    ],
)
def test_a_sensor_that_does_not_wait_says_what_it_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    work: Work,
    snapshot_id: str | None,
    sentence: str,
) -> None:
    find(monkeypatch, work)
    with caplog.at_level("INFO"):
        found = sensor(tmp_path, waits=work in (NEWS, OPEN)).execute({})
    assert found == {"table": "nyc.flights", "snapshot_id": snapshot_id}
    assert sentence in caplog.messages


def test_a_configuration_is_refused_before_a_day_is_waited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(conf: object) -> None:
        raise UsageError(f"takes none: {conf}")

    find(monkeypatch, QUIET)
    context = {"dag_run": SimpleNamespace(conf={"x": 1})}
    with pytest.raises(AirflowFailException, match=r"wait_for_snapshot: takes none: \{'x': 1\}"):
        sensor(tmp_path, check_configuration=refuse).execute(context)


@pytest.mark.parametrize(("poll_interval", "seconds"), [("1s", 10), ("30s", 30)])
def test_a_quiet_table_is_waited_for_in_the_triggerer_once_the_scheduler_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, poll_interval: str, seconds: int
) -> None:
    find(monkeypatch, QUIET)
    with pytest.raises(TaskDeferred) as deferred:
        sensor(tmp_path, poll_interval=poll_interval, timeout=timedelta(hours=1)).execute({})
    trigger: Any = deferred.value.trigger
    left = datetime.fromisoformat(trigger.deadline) - datetime.now(UTC)
    assert timedelta(minutes=59) < left < timedelta(hours=1)
    assert deferred.value.timeout > timedelta(hours=1), "Airflow's own timeout would fail the run"
    first = datetime.fromisoformat(trigger.first_look) - datetime.now(UTC)
    assert timedelta(seconds=seconds - 5) < first <= timedelta(seconds=seconds)
    assert sensor(tmp_path).timeout == 86400


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        (TerminalError("no such table"), AirflowFailException, "wait_for_snapshot: no such table"),
        (TransientError("catalog down"), TransientError, "catalog down"),
    ],
)
def test_an_error_that_stays_fails_the_task_and_one_that_passes_is_left_to_retries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception], said: str
) -> None:
    find(monkeypatch, error)
    with pytest.raises(raised, match=said):
        sensor(tmp_path, waits=False).execute({})


def test_a_sensor_that_waits_fails_no_try_while_the_catalog_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(monkeypatch, TransientError("catalog down"))
    troubles: list[object] = []
    monkeypatch.setattr(use_cases, "record_trouble", lambda _, sentence, **told: troubles.append((sentence, told)))
    with pytest.raises(TaskDeferred):
        sensor(tmp_path).execute({})
    assert troubles == [("catalog down", {"phase": "wait_for_snapshot", "is_final": False, "dag_id": "flights"})]


@pytest.mark.parametrize(
    ("event", "snapshot_id", "said"),
    [
        ({"snapshot_id": 2**62, "is_due": True}, str(2**62), ""),
        ({"snapshot_id": None, "is_due": False}, None, "stayed quiet"),
        ({"snapshot_id": None, "is_due": True}, None, "nyc.flights has no snapshot"),
    ],
)
def test_it_resumes_with_the_snapshot_as_a_string(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, event: dict[str, Any], snapshot_id: str | None, said: str
) -> None:
    with caplog.at_level("INFO"):
        assert sensor(tmp_path).resume({}, event) == {"table": "nyc.flights", "snapshot_id": snapshot_id}
    assert said in caplog.text


@pytest.mark.parametrize(("is_terminal", "error"), [(True, AirflowFailException), (False, TransientError)])
def test_it_resumes_with_the_triggers_error(tmp_path: Path, is_terminal: bool, error: type[Exception]) -> None:
    with pytest.raises(error, match="gone"):
        sensor(tmp_path).resume({}, {"error": "gone", "is_terminal": is_terminal})
