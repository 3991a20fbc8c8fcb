from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from icefloe.orchestration.page.checkpoint_reader import Found
from icefloe.orchestration.page.dag_reader import DagState, RunState, TaskState
from icefloe.orchestration.page.pipeline_page import overview_document, pipeline_row
from icefloe.orchestration.tasks.task_documents import PipelineFacts
from support.pipelines.pipeline_files import pipeline_from

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def dag(folder: Path, dag_id: str, state: str = "success") -> DagState:
    tasks = {"plan": TaskState(task_id="plan", state=state)}
    runs = (RunState(run_id="r", state=state, tasks=tasks),)
    return DagState(dag_id=dag_id, facts=PipelineFacts(pipeline=pipeline_from(folder, dag_id)), runs=runs)


def test_those_in_trouble_come_first_and_backfills_not_at_all(tmp_path: Path) -> None:
    broken = DagState(dag_id="z", facts=PipelineFacts(sentence="no table"), is_broken=True)
    backfill = DagState(dag_id="a__backfill", facts=PipelineFacts(), is_backfill=True)
    document = overview_document(
        [dag(tmp_path, "a"), dag(tmp_path, "b", "failed"), broken, backfill], {"a": Found(value={})}, {}, now=NOW
    )
    assert [row["dag_id"] for row in document["pipelines"]] == ["z", "b", "a"]
    assert document["counts"]["failed"] == document["counts"]["broken file"] == 1


def test_a_checkpoint_that_does_not_answer_is_reported(tmp_path: Path) -> None:
    [row] = overview_document([dag(tmp_path, "a")], {"a": Found(sentence="access is denied")}, {}, now=NOW)["pipelines"]
    assert row["checkpoint_sentence"] == "access is denied"


def test_a_sink_is_named_with_its_type_and_with_its_place_once_a_batch_was_delivered(tmp_path: Path) -> None:
    sink = {"type": "opensearch", "index": "flights"}
    facts = PipelineFacts(pipeline=pipeline_from(tmp_path, "a", sink=sink))
    delivering = DagState(dag_id="a", facts=facts)
    before = pipeline_row(delivering, Found(value={}), None, now=NOW)["sink"]
    assert (before["type"], before["mode"], before["path"]) == ("opensearch", None, "")
    mirror = {"type": "iceberg", "mode": "mirror", "table": "copies.{table}"}
    into_table = DagState(dag_id="b", facts=PipelineFacts(pipeline=pipeline_from(tmp_path, "b", sink=mirror)))
    named = pipeline_row(into_table, Found(value={}), None, now=NOW)["sink"]
    assert (named["mode"], named["path"]) == ("mirror", "copies.flights")
    delivery = {"url": "https://search:9200/flights", "visible_at": NOW.isoformat(), "lag_seconds": 2.5}
    recent = [
        {"batch": 3, "rows": 1},
        {"batch": 4, "rows": 1, "dead_letters": 2},
        {"batch": 5, "rows": 1, "dead_letters": 1},
    ]
    found = Found(value={"last_delivery": delivery, "recent": recent})
    after = pipeline_row(delivering, found, None, now=NOW)["sink"]
    assert (after["path"], after["lag_seconds"]) == ("https://search:9200/flights", 2.5)
    assert (after["dead_letters"], after["batches_with_dead_letters"]) == (3, [4, 5])


@pytest.mark.parametrize(
    ("state", "status", "command"),
    [
        ("failed", {"open_batch": 5, "cursor_snapshot_id": "7"}, "icefloe abandon a"),
        ("failed", {"cursor_snapshot_id": "7"}, "icefloe reset a"),
        ("failed", {"cursor_snapshot_id": "7", "lag_snapshots": 3}, None),
        ("failed", {}, None),
        ("success", {"open_batch": 5, "cursor_snapshot_id": "7"}, None),
    ],
)
def test_a_stuck_pipeline_shows_the_command_that_leads_out(
    tmp_path: Path, state: str, status: dict[str, Any], command: str | None
) -> None:
    found = {"a": Found(value=status)}
    [row] = overview_document([dag(tmp_path, "a", state)], found, {}, now=NOW)["pipelines"]
    assert [way["command"] for way in row["ways_out"]] == ([] if command is None else [command])


@pytest.mark.parametrize(
    ("result", "command"),
    [({"backfill_id": "start-7-ab"}, "icefloe abandon a --backfill start-7-ab"), ({}, None)],
)
def test_a_stuck_backfill_shows_the_command_that_gives_it_up(
    tmp_path: Path, result: dict[str, Any], command: str | None
) -> None:
    failed = {
        "plan": TaskState(task_id="plan", state="success", result=result),
        "commit": TaskState(task_id="commit", state="failed"),
    }
    runs = (RunState(run_id="r", state="failed", tasks=failed),)
    backfill = replace(dag(tmp_path, "a"), dag_id="a__backfill", is_backfill=True, runs=runs)
    row = pipeline_row(backfill, Found(), None, now=NOW)
    assert [way["command"] for way in row["ways_out"]] == ([] if command is None else [command])
