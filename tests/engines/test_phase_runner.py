"""Tasks that find parts missing, and tasks whose batch another run has finished."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from icefloe.batch.context.batch_folder import UnfinishedTasksError
from icefloe.batch.context.references import BatchFinished
from icefloe.engines.phase_runner import PhaseRunner
from icefloe.flow import Phase, Route
from support.pipelines.workshop import InOrder, OpenBatch, Workshop


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop.create(tmp_path)


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    """A batch of two map tasks that are done, the second of which lost its part."""
    for start in (0, 50):
        workshop.append(range(start, start + 50))
    batch = workshop.set(shuffle={"map_task_bytes": 1}).open().run_route()
    assert batch.plan.route is Route.INSERT_ONLY
    (workshop.folder / "changes/batch=0/part-00001.parquet").unlink()
    return batch


def runner_of(batch: OpenBatch, *, kind: Literal["local", "spark"] = "local") -> tuple[PhaseRunner, InOrder]:
    engine = InOrder()
    return PhaseRunner(pipeline=replace(batch.reference.settings.pipeline, engine=kind), engine=engine), engine


def test_commit_writes_a_missing_part_again_and_no_other(workshop: Workshop, batch: OpenBatch) -> None:
    runner, engine = runner_of(batch)
    assert runner.commit(batch.reference).batch.counts["insert"] == 100
    assert engine.given == [[1]]
    workshop.require_exact(batch.plan, workshop.changes(0))


def test_a_phase_that_may_not_run_here_is_left_to_its_operator(batch: OpenBatch) -> None:
    runner, engine = runner_of(batch, kind="spark")
    with pytest.raises(UnfinishedTasksError, match="clear insert_only") as caught:
        runner.commit(batch.reference)
    assert (caught.value.phase, engine.given) == (Phase.INSERT_ONLY, [])


def test_a_batch_that_another_run_committed_is_not_committed_again(batch: OpenBatch) -> None:
    runner, _ = runner_of(batch)
    report = runner.commit(batch.reference)
    batch.clean_up()
    with pytest.raises(BatchFinished) as caught:
        runner.commit(batch.reference)
    assert (caught.value.report, caught.value.was_abandoned) == (report, False)
