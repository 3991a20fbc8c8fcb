import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow._shared.module_loading import import_string
from airflow.providers.apache.iceberg.triggers.iceberg import IcebergTableSnapshotTrigger

from icefloe.batch.open_batch import Work
from icefloe.errors import TerminalError, TransientError
from icefloe.orchestration import metrics, use_cases
from icefloe.orchestration.pipeline_mapping import pipeline_to_mapping
from icefloe.orchestration.snapshot_trigger import PipelineSnapshotTrigger
from orchestration.pipelines import pipeline_from

QUIET = Work(has_open_batch=False, has_new_snapshot=False, head_snapshot_id=3)
NEWS = Work(has_open_batch=False, has_new_snapshot=True, head_snapshot_id=4)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., PipelineSnapshotTrigger]:
    """A trigger whose polls find what is given, the last of it for ever."""

    def make(*found: Work | Exception, seconds: float = 60) -> PipelineSnapshotTrigger:
        left = list(found)

        def work_of(_: Any) -> Work:
            next_one = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(next_one, Exception):
                raise next_one
            return next_one

        monkeypatch.setattr(use_cases, "work_of", work_of)
        pipeline = pipeline_from(tmp_path, poll_interval="1ms")
        deadline = datetime.now(UTC) + timedelta(seconds=seconds)
        return PipelineSnapshotTrigger(pipeline=pipeline_to_mapping(pipeline), deadline=deadline.isoformat())

    return make


def only_event(trigger: PipelineSnapshotTrigger) -> Any:
    async def events() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    [payload] = asyncio.run(events())
    return payload


def test_it_fires_once_when_there_is_a_snapshot_the_checkpoint_has_not_seen(make: Callable[..., Any]) -> None:
    assert only_event(make(QUIET, QUIET, NEWS)) == {
        "table": "nyc.flights", "branch": "main", "snapshot_id": 4, "previous_snapshot_id": None,
    }  # fmt: skip


def test_an_open_batch_is_work_too(make: Callable[..., Any]) -> None:
    work = Work(has_open_batch=True, has_new_snapshot=False, head_snapshot_id=3)
    assert only_event(make(work))["snapshot_id"] == 3


def test_a_quiet_table_ends_at_the_deadline(make: Callable[..., Any]) -> None:
    assert only_event(make(QUIET, seconds=0.05))["snapshot_id"] is None


def test_a_deadline_that_passed_while_no_triggerer_ran_ends_at_once(make: Callable[..., Any]) -> None:
    assert only_event(make(QUIET, seconds=-1))["snapshot_id"] is None


def test_a_terminal_error_ends_the_wait_with_its_sentence(make: Callable[..., Any]) -> None:
    event = only_event(make(TerminalError("the table nyc.flights does not exist")))
    assert event == {"error": "the table nyc.flights does not exist", "is_terminal": True}


def test_a_catalog_that_comes_back_is_waited_for(make: Callable[..., Any]) -> None:
    assert only_event(make(TransientError("down"), TransientError("down"), NEWS))["snapshot_id"] == 4


def test_a_catalog_that_stays_down_ends_the_wait(make: Callable[..., Any]) -> None:
    assert only_event(make(TransientError("down"))) == {"error": "down", "is_terminal": False}


def test_the_triggerer_makes_an_equal_trigger_from_what_is_stored(make: Callable[..., Any]) -> None:
    trigger = make(NEWS)
    path, arguments = trigger.serialize()
    again = import_string(path)(**arguments)
    assert isinstance(again, PipelineSnapshotTrigger)
    assert again.serialize() == (path, arguments)
    assert (again.table, again.branch, again.poll_interval) == ("nyc.flights", "main", 0.001)


def test_a_triggerer_that_makes_the_trigger_imports_nothing_heavy_of_ours() -> None:
    script = "import sys; import icefloe.orchestration.snapshot_trigger; print('icefloe.batch.prepare' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.splitlines()[-1] == "False"


def test_the_provider_still_polls_through_the_method_we_override() -> None:
    assert "_head_snapshot_id" in IcebergTableSnapshotTrigger.run.__code__.co_names


def test_every_look_is_counted(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    polls: list[str] = []
    monkeypatch.setattr(metrics, "send_poll", lambda name, table, *, outcome: polls.append(f"{name} {table} {outcome}"))
    only_event(make(QUIET, TransientError("the catalog timed out"), NEWS))
    assert polls == [f"flights nyc.flights {outcome}" for outcome in ("empty", "failed", "due")]
