"""Phases of batches that are really planned, and who runs them."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from icefloe.flow import Phase
from icefloe.orchestration.tasks.spark_phase_operator import SparkPhaseOperator
from orchestration.tasks.spark_phase_tasks import PREPARED, FakeSparkSubmit
from support.pipelines.workshop import Workshop
from support.sinks.document_folder import DocumentFolder, registered


@pytest.fixture(autouse=True)
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSparkSubmit:
    return FakeSparkSubmit(tmp_path, monkeypatch)


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[tuple[Workshop, str]]:
    """A batch that is staged, and to be delivered to a folder of documents: its pipeline, and the URL of its plan."""
    with registered():
        workshop = Workshop.create(tmp_path).set(sink={"type": "documents", "folder": f"{tmp_path}/documents"})
        workshop.append([1, 2])
        batch = workshop.open()
        batch.run(Phase.INSERT_ONLY)
        yield workshop, batch.plan_url


def delivering(
    staged: tuple[Workshop, str], phase: str = "deliver", *, engine: str = "spark"
) -> tuple[SparkPhaseOperator, dict[str, Any]]:
    """A task of the batch, and its context."""
    workshop, plan_url = staged
    prepared = {**PREPARED, "plan_uri": plan_url}
    context = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: {"plan": prepared}[task_ids])}
    task = SparkPhaseOperator(task_id=phase, phase=phase, pipeline=workshop.set(engine=engine).session().pipeline)
    return task, context


def test_a_small_batch_is_delivered_without_spark_submit(staged: tuple[Workshop, str], spark: FakeSparkSubmit) -> None:
    task, context = delivering(staged)
    task.execute(context)
    assert spark.calls == []
    assert sorted(DocumentFolder(staged[0].folder / "documents").documents()) == ["1", "2"]
