import pytest

from icefloe.orchestration.page.batch_page import history_url, spark_links
from icefloe.orchestration.page.dag_state import RunState, TaskState

PHASE = {"phase": "shuffle_read", "spark_application_id": "app-1", "spark_ui": "http://driver:4040"}


def run(state: str) -> RunState:
    return RunState(run_id="r", state="running", tasks={"shuffle_read": TaskState(task_id="shuffle_read", state=state)})


def test_a_phase_that_runs_leads_to_sparks_own_page() -> None:
    links = spark_links([PHASE], run("running"), history="https://history")
    assert links == {"shuffle_read": {"application_id": "app-1", "url": "http://driver:4040", "is_live": True}}


def test_a_phase_that_has_ended_leads_to_the_history_server_where_there_is_one() -> None:
    [ended] = spark_links([PHASE], run("success"), history="https://history").values()
    assert (ended["url"], ended["is_live"]) == ("https://history/history/app-1/", False)
    [unknown] = spark_links([PHASE], None, history=None).values()
    assert unknown == {"application_id": "app-1", "url": None, "is_live": False}


def test_a_phase_without_spark_has_no_link_and_a_foreign_address_is_none() -> None:
    assert (
        spark_links([{"phase": "coalesce"}, {"phase": "plan", "spark_application_id": None}], None, history=None) == {}
    )
    [odd] = spark_links([{**PHASE, "spark_ui": "javascript:alert(1)"}], run("running"), history=None).values()
    assert odd["url"] is None


def test_the_history_server_comes_from_airflows_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    assert history_url() is None
    monkeypatch.setenv("AIRFLOW__ICEFLOE__SPARK_HISTORY_URL", "https://history.example.com/")
    assert history_url() == "https://history.example.com"
