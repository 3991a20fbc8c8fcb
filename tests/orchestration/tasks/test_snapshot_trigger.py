import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow._shared.module_loading import import_string
from airflow.providers.apache.iceberg.triggers.iceberg import IcebergTableSnapshotTrigger

from icefloe.batch.open.next_batch import Work
from icefloe.errors import TerminalError, TransientError
from icefloe.orchestration.tasks import calls as use_cases
from icefloe.orchestration.tasks import snapshot_trigger
from icefloe.orchestration.tasks.snapshot_trigger import PipelineSnapshotTrigger
from icefloe.orchestration.tasks.task_documents import pipeline_to_mapping
from icefloe.patience import BegunThread
from icefloe.pipeline.model import Pipeline
from orchestration.tasks.looks import BEGIN, NEWS, OPEN, QUIET, finding, only_event
from support.fakes.unanswering import keep_silent, serving
from support.pipelines.pipeline_files import pipeline_from
from support.tables.planning_tables import make_table


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., PipelineSnapshotTrigger]]:
    """A trigger whose polls find what is given, the last of it for ever."""

    def make(*found: Work | Exception, seconds: float = 60) -> PipelineSnapshotTrigger:
        monkeypatch.setattr(use_cases, "work_of", finding(*found))
        pipeline = pipeline_from(tmp_path, poll_interval="1ms")
        deadline = datetime.now(UTC) + timedelta(seconds=seconds)
        return PipelineSnapshotTrigger(pipeline=pipeline_to_mapping(pipeline), deadline=deadline.isoformat())

    yield make
    # A look goes on after its trigger's deadline: what it reports belongs to this test.
    for thread in threading.enumerate():
        if thread.name.startswith("icefloe-looks"):
            thread.join(60)


@pytest.fixture
def troubles(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The trouble that was put into the pipeline's status; None: its end."""
    found: list[str | None] = []
    monkeypatch.setattr(use_cases, "record_trouble", lambda _, sentence, **__: found.append(sentence))
    monkeypatch.setattr(use_cases, "end_trouble", lambda *_: found.append(None))
    return found


@pytest.mark.parametrize(
    "mapping",
    [{"path": "flights.yaml", "data": {"version": 1, "key_of_a_newer_release": 1}}, {"path": "flights.yaml"}],
)
def test_a_pipeline_that_the_triggerer_cannot_read_fails_its_own_sensor_alone(mapping: dict[str, Any]) -> None:
    """Airflow's triggerer ends if making a trigger raises anything but a TypeError, and again when it is restarted."""
    trigger = PipelineSnapshotTrigger(pipeline=mapping, deadline="2026-01-01T00:00:00+00:00")
    assert trigger.serialize()[1]["pipeline"] == mapping
    event = only_event(trigger)
    assert event["error"].startswith("the triggerer cannot read the pipeline that a worker gave it (")
    assert event["is_terminal"] is False


def test_a_table_whose_name_is_a_variable_is_waited_for(tmp_path: Path) -> None:
    pipeline = pipeline_from(tmp_path, table="${FLIGHTS}")
    trigger = PipelineSnapshotTrigger(
        pipeline=pipeline_to_mapping(pipeline),
        deadline=datetime.now(UTC).isoformat(),
        first_look="2100-01-01T00:00:00Z",
    )
    event = only_event(trigger)
    assert (event["table"], event["is_due"]) == ("${FLIGHTS}", False)


def test_it_fires_once_when_there_is_a_snapshot_the_checkpoint_has_not_seen(make: Callable[..., Any]) -> None:
    assert only_event(make(QUIET, QUIET, NEWS)) == {
        "table": "nyc.flights", "branch": "main", "snapshot_id": 4, "previous_snapshot_id": None, "is_due": True,
    }  # fmt: skip


def test_nothing_is_looked_at_before_the_first_look(
    make: Callable[..., PipelineSnapshotTrigger], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, arguments = make(NEWS).serialize()
    first_look = datetime.now(UTC) + timedelta(milliseconds=200)
    looked: list[datetime] = []

    def work_of(_: Any) -> Work:
        looked.append(datetime.now(UTC))
        return NEWS

    monkeypatch.setattr(use_cases, "work_of", work_of)
    later: dict[str, Any] = {**arguments, "first_look": first_look.isoformat()}
    only_event(PipelineSnapshotTrigger(**later))
    assert [each >= first_look for each in looked] == [True]


DOWN = TransientError("down")


@pytest.mark.parametrize(
    ("found", "seconds", "event"),
    [
        ((QUIET, BEGIN), 60, {"snapshot_id": None, "is_due": True}),
        ((OPEN,), 60, {"snapshot_id": 3, "is_due": True}),
        ((QUIET,), 0.05, {"snapshot_id": None, "is_due": False}),
        ((QUIET,), -1, {"snapshot_id": None, "is_due": False}),
        ((TerminalError("no such table"),), 60, {"error": "no such table", "is_terminal": True}),
        ((*[DOWN] * 200, NEWS), 60, {"snapshot_id": 4}),
        ((DOWN,), 1, {"error": "down", "is_terminal": False}),
    ],
    ids=[
        "an empty table where a pipeline begins", "an open batch", "a quiet table", "a deadline that passed meanwhile",
        "a final error", "a catalog that comes back after hours", "a catalog that is down at the deadline",
    ],
)  # fmt: skip
def test_the_wait_ends(make: Callable[..., Any], found: Any, seconds: float, event: dict[str, Any]) -> None:
    assert only_event(make(*found, seconds=seconds)).items() >= event.items()


def test_a_fault_that_lasts_is_reported_now_and_then(make: Callable[..., Any], troubles: list[str | None]) -> None:
    only_event(make(*[DOWN] * 11, TransientError("refused"), NEWS))
    assert troubles == ["down", "down", "refused"]


def test_trouble_is_over_after_a_look_that_finds_nothing_new(
    make: Callable[..., Any], troubles: list[str | None]
) -> None:
    only_event(make(QUIET, QUIET, TransientError("down"), QUIET, QUIET, NEWS))
    assert troubles == [None, "down", None], "the first None is the end of trouble that the sensor may have left"


@pytest.mark.parametrize(("refused", "is_found"), [(30, True), (9999, False)])
def test_a_look_without_a_thread_is_a_failed_look(
    refused: int, is_found: bool, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, start = iter(range(refused)), BegunThread.start

    def starve(thread: BegunThread) -> None:
        if next(starts, None) is not None:
            raise MemoryError("the system lets this process start no further thread")
        start(thread)

    snapshot_trigger._lanes.cache_clear()
    monkeypatch.setattr(BegunThread, "start", starve)
    event = only_event(make(NEWS, seconds=60 if is_found else 1))
    assert ("snapshot_id" in event) is is_found
    sentence = "the triggerer has no memory left (the system lets this process start no further thread): "
    assert is_found or (event["error"].startswith(sentence) and not event["is_terminal"])


def test_the_triggerer_makes_an_equal_trigger_from_what_is_stored(make: Callable[..., Any]) -> None:
    trigger = make(NEWS)
    path, arguments = trigger.serialize()
    again = import_string(path)(**arguments)
    assert isinstance(again, PipelineSnapshotTrigger)
    assert again.serialize() == (path, arguments)
    assert (again.table, again.branch, again.poll_interval) == ("nyc.flights", "main", 0.001)


@pytest.mark.slow
def test_a_triggerer_that_makes_the_trigger_imports_nothing_heavy_of_ours() -> None:
    module, heavy = "icefloe.orchestration.tasks.snapshot_trigger", "icefloe.batch.plan.open_and_plan"
    script = f"import sys; import {module}; print({heavy!r} in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.splitlines()[-1] == "False"


def test_the_event_is_that_of_the_provider(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    provider: Any = IcebergTableSnapshotTrigger(table="nyc.flights")
    monkeypatch.setattr(provider, "_head_snapshot_id", lambda: 4)

    async def first_event() -> Any:
        return (await anext(provider.run())).payload

    assert only_event(make(NEWS)) == {**asyncio.run(first_event()), "is_due": True}


@pytest.mark.timeout(55)  # no look at a dead catalog comes back before
def test_catalogs_that_never_answer_hold_up_no_healthy_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_table(tmp_path)
    healthy = pipeline_from(
        tmp_path,
        "healthy",
        catalog={"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"},
        table="db.events",
        initial_load="full",
        poll_interval="10ms",
    )
    looks: list[str] = []
    asked = asyncio.Event()

    async def look_at_all(dead: list[Pipeline]) -> None:
        loop = asyncio.get_running_loop()

        def send_poll(name: str, table: str, *, outcome: str) -> None:
            looks.append(f"{name} {outcome}")
            if looks.count("healthy empty") >= 10:
                loop.call_soon_threadsafe(asked.set)

        monkeypatch.setattr(use_cases, "send_poll", send_poll)
        deadline = (datetime.now(UTC) + timedelta(minutes=10)).isoformat()
        triggers = [
            PipelineSnapshotTrigger(pipeline=pipeline_to_mapping(each), deadline=deadline) for each in [*dead, healthy]
        ]
        waiting = [asyncio.ensure_future(anext(trigger.run())) for trigger in triggers]
        await asked.wait()
        for each in waiting:
            each.cancel()

    with serving(keep_silent) as port:
        dead = [
            pipeline_from(
                tmp_path,
                f"dead_{number}",
                catalog={"type": "rest", "uri": f"http://127.0.0.1:{port}/{number % 2}"},
                poll_interval="10ms",
            )
            for number in range(50)
        ]
        asyncio.run(look_at_all(dead))
    assert {look for look in looks if "healthy" in look} == {"healthy empty"}


def test_every_look_is_counted(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    polls: list[str] = []
    monkeypatch.setattr(
        use_cases, "send_poll", lambda name, table, *, outcome: polls.append(f"{name} {table} {outcome}")
    )
    only_event(make(QUIET, TransientError("the catalog timed out"), NEWS))
    # Looks of earlier tests may end only now.
    assert [each for each in polls if each.startswith("flights")] == [
        f"flights nyc.flights {outcome}" for outcome in ("empty", "failed", "due")
    ]
