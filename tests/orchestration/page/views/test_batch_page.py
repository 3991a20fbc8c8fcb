from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from icefloe.orchestration.page.batch_page import batch_document, ended_entry, history_url, spark_links
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
        dag, 0, [], None, Found(value=ended("committed", **{"delivery": None, **report})), [], now=NOW
    )


def ended(state: str, **report: Any) -> dict[str, Any]:
    return {"batch": {"batch_number": 0}, "state": state, **report}


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


def failed_run(task_id: str, **results: Any) -> RunState:
    tasks = {name: TaskState(task_id=name, state="success", result=result) for name, result in results.items()}
    failed = TaskState(task_id=task_id, state="failed", trouble={"sentence": "not delivered"})
    return RunState(run_id="r", state="failed", tasks={**tasks, task_id: failed})


@pytest.mark.parametrize(
    ("report", "is_backfill", "since"),
    [
        (ended("committed"), False, "This run failed; batch 0 was delivered since."),
        (ended("abandoned"), False, "This run failed; batch 0 was abandoned since."),
        (ended("abandoned"), True, "This run failed; batch 0 was abandoned since."),
        (None, False, None),
    ],
)
def test_a_run_whose_batch_ended_after_it_had_failed_is_in_no_trouble_and_says_so(
    tmp_path: Path, report: Any, is_backfill: bool, since: str | None
) -> None:
    run = failed_run("check", plan={"batch_number": 0})
    facts = PipelineFacts(pipeline=pipeline_from(tmp_path, "a"))
    dag = DagState(dag_id="a", facts=facts, is_backfill=is_backfill, runs=(run,))
    found = batch_document(dag, 0, [run], None, Found(value=report), [], now=NOW)
    assert (found["ended_since"], found["trouble"] is None) == (since, since is not None)
    assert found["batch"]["state"] == ("open" if report is None else report["state"])


def test_a_cleanup_that_failed_is_the_trouble_of_a_batch_that_its_run_committed(tmp_path: Path) -> None:
    run = failed_run("cleanup", plan={"batch_number": 0}, commit={"batch_number": 0})
    dag = DagState(dag_id="a", facts=PipelineFacts(pipeline=pipeline_from(tmp_path, "a")), runs=(run,))
    found = batch_document(dag, 0, [run], None, Found(value=ended("committed")), [], now=NOW)
    assert (found["trouble"]["task_id"], found["ended_since"]) == ("cleanup", None)


@pytest.mark.parametrize("state", ["abandoned", "cursor set", "reset"])
def test_a_batch_that_delivered_nothing_has_no_proof(state: str) -> None:
    found = ended_entry(ended(state), [])
    assert (found["state"], found["audit"]) == (state, None)
    assert ended_entry(ended("committed"), [])["audit"]["summaries_equal"] == 0


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
