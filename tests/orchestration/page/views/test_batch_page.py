from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from icefloe.orchestration.page.batch_page import batch_document, history_url, spark_links
from icefloe.orchestration.page.checkpoint_reader import Found
from icefloe.orchestration.page.dag_reader import DagState, RunState, TaskState
from icefloe.orchestration.tasks.task_documents import PipelineFacts
from support.pipelines.pipeline_files import pipeline_from

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
FILES = {"type": "files", "path": "file:///var/changes"}
INDEX = {"type": "opensearch", "index": "flights"}


def document(folder: Path, sink: dict[str, Any], *, is_backfill: bool = False, **report: Any) -> dict[str, Any]:
    dag = DagState(
        dag_id="a", facts=PipelineFacts(pipeline=pipeline_from(folder, "a", sink=sink)), is_backfill=is_backfill
    )
    return batch_document(
        dag, 0, [], None, Found(value={"batch": {"batch_number": 0}, "delivery": None, **report}), [], now=NOW
    )


@pytest.mark.parametrize(
    ("sink", "is_backfill", "delivers"), [(FILES, False, False), (INDEX, False, True), (INDEX, True, False)]
)
def test_only_batches_that_go_on_to_a_sink_have_deliver_in_their_routes(
    tmp_path: Path, sink: dict[str, Any], is_backfill: bool, delivers: bool
) -> None:
    further = ["deliver"] if delivers else []
    assert document(tmp_path, sink, is_backfill=is_backfill)["routes"] == {
        "insert_only": ["insert_only", *further],
        "shuffle": ["shuffle_write", "coalesce", "shuffle_read", *further],
        "nothing_to_do": ["nothing_to_do", *further],
    }


def test_the_figures_of_a_delivery_are_those_of_the_report(tmp_path: Path) -> None:
    delivery = {"sink": "opensearch", "documents": 3}
    assert document(tmp_path, INDEX, delivery=delivery)["batch"]["delivery"] == delivery
    assert document(tmp_path, FILES)["batch"]["delivery"] is None


PHASE = {"phase": "shuffle_read", "spark_application_id": "app-1", "spark_ui": "http://driver:4040"}


def run(state: str) -> RunState:
    return RunState(run_id="r", state="running", tasks={"shuffle_read": TaskState(task_id="shuffle_read", state=state)})


@pytest.mark.parametrize(
    ("phase", "state", "history", "url", "is_live"),
    [
        (PHASE, "running", "https://history", "http://driver:4040", True),
        (PHASE, "success", "https://history", "https://history/history/app-1/", False),
        (PHASE, None, None, None, False),
        ({**PHASE, "spark_ui": "javascript:alert(1)"}, "running", None, None, False),
    ],
)
def test_a_phase_leads_to_sparks_own_page_or_to_the_history_server(
    phase: dict[str, Any], state: str | None, history: str | None, url: str | None, is_live: bool
) -> None:
    links = spark_links([phase, {"phase": "coalesce"}], None if state is None else run(state), history=history)
    [(name, link)] = links.items()
    assert (name, link["application_id"], link["url"]) == ("shuffle_read", "app-1", url)
    assert link["is_live"] is is_live or url is None


def test_the_history_server_comes_from_airflows_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    assert history_url() is None
    monkeypatch.setenv("AIRFLOW__ICEFLOE__SPARK_HISTORY_URL", "https://history.example.com/")
    assert history_url() == "https://history.example.com"
