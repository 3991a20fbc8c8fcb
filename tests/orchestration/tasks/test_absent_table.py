from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.open.next_batch import Work
from icefloe.errors import TransientError
from icefloe.iceberg.catalog.catalogs import UnknownTableError
from icefloe.orchestration.tasks import calls as use_cases
from icefloe.orchestration.tasks.calls import plan_batch, work_of
from icefloe.orchestration.tasks.snapshot_trigger import PipelineSnapshotTrigger
from icefloe.orchestration.tasks.task_documents import pipeline_to_mapping
from icefloe.pipeline.model import Pipeline
from orchestration.tasks.looks import NEWS, finding, only_event
from support.pipelines.pipeline_files import pipeline_from
from support.pipelines.workspace import Workspace, icefloe

ABSENT = TransientError("it is not there now", table="nyc.flights")
ABSENT.__cause__ = UnknownTableError("no such table", catalog="lab", table="nyc.flights")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    workspace = Workspace.create(tmp_path)
    workspace.append(1, 2)
    return workspace.pipeline(engine="local")


def answer_404(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the catalog say that it has no table, as a proxy under maintenance does."""

    def load_table(*_: Any, **__: Any) -> Any:
        raise UnknownTableError("catalog 'lab' has no table db.events", catalog="lab", table="db.events")

    monkeypatch.setattr("icefloe.batch.context.session.open_table", load_table)


@pytest.mark.parametrize("call", [work_of, lambda pipeline: plan_batch(pipeline, None)], ids=["look", "plan"])
def test_a_missing_table_that_the_pipeline_has_read_is_looked_for_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[Any], object]
) -> None:
    with monkeypatch.context() as never_read:
        answer_404(never_read)
        with pytest.raises(UnknownTableError):
            call(Pipeline.load(path))
    assert icefloe("run", path).code == 0
    answer_404(monkeypatch)
    with pytest.raises(TransientError, match=r"has no table db\.events; events has read this table, so it is looked"):
        call(Pipeline.load(path))


def test_another_name_of_the_table_is_an_error_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert icefloe("run", path).code == 0
    path.write_text(path.read_text().replace("db.events", "db.evens"))
    answer_404(monkeypatch)
    with pytest.raises(UnknownTableError):
        work_of(Pipeline.load(path))


def test_the_trigger_waits_for_a_table_that_comes_back_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert waited(tmp_path, monkeypatch, *[ABSENT] * 50, NEWS)["snapshot_id"] == 4
    monkeypatch.setattr(use_cases, "_LONGEST", timedelta(milliseconds=1))
    event = waited(tmp_path, monkeypatch, ABSENT)
    assert event["is_terminal"]
    assert event["error"].startswith("table nyc.flights has been missing from its catalog for 0 minutes: bring it back")
    # The time counts from the first of the looks in a row that miss the table.
    found = [ABSENT, TransientError("down")] * 20
    assert waited(tmp_path, monkeypatch, *found, NEWS)["snapshot_id"] == 4


def waited(folder: Path, monkeypatch: pytest.MonkeyPatch, *found: Work | Exception) -> Any:
    monkeypatch.setattr(use_cases, "work_of", finding(*found))
    monkeypatch.setattr(use_cases, "record_trouble", lambda *_, **__: None)
    monkeypatch.setattr(use_cases, "end_trouble", lambda *_: None)
    pipeline = pipeline_to_mapping(pipeline_from(folder, poll_interval="2ms"))
    deadline = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
    return only_event(PipelineSnapshotTrigger(pipeline=pipeline, deadline=deadline))
