"""Secrets planted in wrong configurations are found in nothing that a task of Airflow gives away."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from icefloe.errors import TransientError
from icefloe.orchestration.tasks import calls as use_cases
from icefloe.orchestration.tasks.failures import airflow_failures
from icefloe.orchestration.tasks.snapshot_sensor import TableSnapshotSensor
from icefloe.orchestration.tasks.snapshot_trigger import PipelineSnapshotTrigger
from icefloe.orchestration.tasks.spark_phase_operator import SparkPhaseOperator
from icefloe.orchestration.tasks.task_documents import pipeline_to_mapping
from icefloe.pipeline.model import Pipeline
from redaction.outlets import Outlets, add_files, airflow, connection, credentials_of, pipeline_of
from redaction.wrong_configurations import VARIED_CASES, Case
from support.catalogs import sql_properties
from support.pipelines.workspace import Workspace

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", VARIED_CASES, ids=str)
def test_no_task_gives_a_secret_away(
    case: Case, workspace: Workspace, server: str, closed_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlets = Outlets()
    good = Pipeline.load(workspace.pipeline(catalog="lab"))
    monkeypatch.setenv("AIRFLOW_CONN_LAB", connection("iceberg", sql_properties(workspace.folder)))
    prepared: Any = use_cases.plan_batch(good, None)
    found = credentials_of(case, workspace, server, closed_host)
    path = pipeline_of(case, workspace)
    monkeypatch.setenv("AIRFLOW_CONN_LAB", connection("iceberg", found["catalog_properties"]))
    monkeypatch.setenv(
        "AIRFLOW_CONN_PLANTED_STORE",
        connection("generic", {"object_store_options": found["storage_options"] or {"x": "y"}}),
    )
    for name, value in case.environ.items():
        monkeypatch.setenv(name, value)
    if case.storage is not None:
        prepared = {**prepared, "plan_uri": f"{case.url}/shuffle/events/0/plan.json"}
    pipeline = Pipeline.load(path)
    for name, task in tasks(pipeline, prepared).items():
        airflow(outlets, name, task, pipeline, monkeypatch)
    add_files(outlets, workspace, path)
    assert outlets.giving_away(case) == {}
    assert {"plan failed", "sensor failed", "trigger failed", "plan xcom"} <= set(outlets.texts)


def tasks(pipeline: Pipeline, prepared: Any) -> dict[str, Callable[[], Any]]:
    """The calls of the sensor, the trigger and each task of a DAG."""

    def phase(name: str) -> Callable[[], Any]:
        made = SparkPhaseOperator(task_id=name, phase=name, pipeline=pipeline)
        passed_on = SimpleNamespace(xcom_pull=lambda **_: prepared)
        return lambda: made.execute({"ti": passed_on})

    def in_task(name: str, call: Callable[[], Any]) -> Callable[[], Any]:
        def run_task() -> Any:
            with airflow_failures(name, pipeline):
                return call()

        return run_task

    sensor = TableSnapshotSensor(task_id="wait_for_snapshot", pipeline=pipeline, waits=False)
    return {
        "sensor": lambda: sensor.execute({}),
        "trigger": lambda: asyncio.run(first_event(pipeline)),
        "plan": in_task("plan", lambda: use_cases.plan_batch(pipeline, None)),
        "shuffle_write": phase("shuffle_write"),
        "coalesce": in_task("coalesce", lambda: use_cases.coalesce_batch(pipeline, prepared)),
        "commit": in_task("commit", lambda: use_cases.commit(pipeline, prepared)),
        "cleanup": in_task("cleanup", lambda: use_cases.clean_up_batch(pipeline, prepared)),
    }


class ImpatientTrigger(PipelineSnapshotTrigger):
    """Ends at its second look that failed, instead of its deadline; the first one is told as any."""

    def _count_failure(self, error: TransientError) -> bool:
        if self._failed_looks:
            raise error
        return super()._count_failure(error)


async def first_event(pipeline: Pipeline) -> None:
    deadline = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
    trigger = ImpatientTrigger(pipeline=pipeline_to_mapping(pipeline), deadline=deadline)
    async for event in trigger.run():
        raise RuntimeError(json.dumps(event.payload))
