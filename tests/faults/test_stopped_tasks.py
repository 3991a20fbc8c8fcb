"""A DAG run that is stopped in any of its tasks, while others go on: Airflow's tasks end as the command line does."""

import os
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import pytest

from faults.scenarios import SCENARIOS
from icefloe.batch.context.already_finished import BatchFinished
from icefloe.errors import TransientError
from icefloe.flow import ROUTE_TASKS, FlowTask, Route, phase_of
from icefloe.orchestration.tasks import calls
from icefloe.pipeline.pipeline_file import load_pipeline
from support.fakes.gates import GatedRun, gated_stores
from support.tables.table_states import TableStates
from support.tiers import places, walk

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(900)]


def run_tasks(path: Path) -> None:
    """The tasks of one DAG run, each as its operator calls it."""
    pipeline = load_pipeline(path)
    planned = calls.plan_batch(pipeline, None)
    if planned["plan_uri"] is None:
        return
    for task in ROUTE_TASKS[Route(planned["route"])]:
        if task is FlowTask.COALESCE:
            calls.coalesce_batch(pipeline, planned)
        elif task is not FlowTask.NOTHING_TO_DO:
            with suppress(BatchFinished), calls.finished_elsewhere(pipeline.expanded(os.environ), planned):
                calls.run_phase_here(pipeline, str(phase_of(task)), planned)
    calls.commit(pipeline, planned)
    calls.clean_up_batch(pipeline, planned)


def stop_at(name: str, number: int, folder: Path, states: TableStates) -> str:
    scenario = SCENARIOS[name]
    place = scenario.place(folder / f"{name}{number}", states)
    with gated_stores(), scenario.in_force():
        late = GatedRun(number, lambda: run_tasks(place.pipelines[0]))
        if late.is_stopped():
            place.others()
        delivered = place.delivered()
        error = late.finish()
    assert isinstance(error, TransientError | None), late.where
    place.require_exact()
    assert delivered.items() <= place.delivered().items()
    return late.where


@pytest.mark.parametrize(("name", "number"), [("changes", 100), ("load", 40), ("parts", 20)])
def test_a_task_that_is_stopped_at_some_document_changes_nothing(
    name: str, number: int, tmp_path: Path, states: TableStates
) -> None:
    assert stop_at(name, number, tmp_path, states)


@pytest.mark.parametrize(
    ("turn", "name"), [walk(*each) for each in enumerate(SCENARIOS) if each[1] not in ("backfill", "damaged")]
)
def test_a_task_that_is_stopped_at_any_document_changes_nothing(
    turn: int, name: str, tmp_path: Path, states: TableStates
) -> None:
    stopped = list(takewhile(bool, (stop_at(name, place, tmp_path, states) for place in places(157, turn))))
    assert stopped
