import json
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from icefloe.batch.context.references import open_table
from icefloe.orchestration.page import page_documents
from icefloe.orchestration.page.checkpoint_reader import Found
from icefloe.orchestration.page.page_documents import as_of_now, table_looks, table_watch
from icefloe.pipeline.model import Pipeline
from support.pipelines.lake import Lake
from support.pipelines.pipeline_files import pipeline_from


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    (tmp_path / "pipelines").mkdir()
    made = Lake.create(tmp_path, tmp_path / "pipelines")
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE", made.connection)
    return made


def answered(ask: Callable[[], Found]) -> Found:
    while (found := ask()) == Found():
        Event().wait(0.02)
    return found


def pipeline_of(folder: Path, **keys: Any) -> Pipeline:
    return pipeline_from(folder, **{"catalog": "lakehouse", "table": "nyc.flights", **keys})


def test_commits_after_the_cursor_are_seen_without_a_run(lake: Lake, tmp_path: Path) -> None:
    first, second = lake.append((1, "AA")), lake.append((2, "UA"))
    status = Found(value={"cursor_snapshot_id": str(first), "lag_snapshots": 0, "updated_at": "2026-01-01T00:00:00"})
    watch, pipeline = table_watch(), pipeline_of(tmp_path)
    look = answered(lambda: watch.get(table_looks({"flights": pipeline}, {"flights": status}))["flights"])
    now = as_of_now(status, look).value
    assert (now["lag_snapshots"], now["head_snapshot_id"]) == (1, str(second))
    assert now["updated_at"] > "2026-01-01"
    assert json.loads(json.dumps(now))["waiting_since"] is not None


def test_a_snapshot_of_another_time_is_not_the_cursor_s_although_it_has_its_id(lake: Lake, tmp_path: Path) -> None:
    head = lake.append((1, "AA"))
    watch, pipeline = table_watch(), pipeline_of(tmp_path)
    written = {"cursor_snapshot_id": str(head), "cursor_timestamp": "2026-01-01T00:00:00+00:00", "lag_snapshots": 0}
    look = answered(lambda: watch.get(table_looks({"flights": pipeline}, {"flights": Found(value=written)}))["flights"])
    assert (look.value["lag_snapshots"], look.value["cursor_timestamp"]) == (None, written["cursor_timestamp"])


def test_a_catalog_that_does_not_answer_leaves_the_status_and_says_why(lake: Lake, tmp_path: Path) -> None:
    status = Found(value={"cursor_snapshot_id": "1", "lag_snapshots": 0})
    watch, pipeline = table_watch(), pipeline_of(tmp_path, catalog="nowhere")
    look = answered(lambda: watch.get(table_looks({"flights": pipeline}, {"flights": status}))["flights"])
    assert "nowhere" in (look.sentence or "")
    assert as_of_now(status, look) == status


def test_one_catalog_that_hangs_holds_up_neither_the_page_nor_another(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor = lake.append((1, "AA"))
    release, real = Event(), open_table

    def slow(pipeline: Pipeline, *arguments: Any) -> Any:
        if pipeline.catalog == "slow":
            release.wait()
        return real(pipeline, *arguments)

    monkeypatch.setattr(page_documents, "open_table", slow)
    watch, status = table_watch(), Found(value={"cursor_snapshot_id": str(cursor)})
    pipelines = {f"slow{number}": pipeline_of(tmp_path, catalog="slow") for number in range(20)}
    pipelines["flights"] = pipeline_of(tmp_path)
    looks = table_looks(pipelines, dict.fromkeys(pipelines, status))
    try:
        # A look that anybody waited for would never come back.
        assert watch.get(looks)["slow1"] == Found()
        assert answered(lambda: watch.get(looks)["flights"]).value["lag_snapshots"] == 0
    finally:
        release.set()
