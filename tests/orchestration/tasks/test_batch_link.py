from pathlib import Path
from types import SimpleNamespace

import pytest

from icefloe.orchestration.dags.dag_factory import pipeline_dag
from icefloe.orchestration.tasks.plugin_parts import BatchLink
from support.pipelines.pipeline_files import pipeline_from

RUN = SimpleNamespace(dag_id="flights", run_id="manual__2026-11-21T10:00:00+00:00")


def test_a_link_leads_to_the_tab_of_the_run_below_where_airflow_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    tab = "/dags/flights/runs/manual__2026-11-21T10%3A00%3A00%2B00%3A00/plugin/icefloe-run"
    assert BatchLink().get_link(None, ti_key=RUN) == tab
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.com/airflow/")
    assert BatchLink().get_link(None, ti_key=RUN) == f"/airflow{tab}"


def test_every_task_that_works_on_a_batch_has_it(tmp_path: Path) -> None:
    dag = pipeline_dag(pipeline_from(tmp_path), tmp_path / "flights.yaml")
    without = {
        task.task_id for task in dag.tasks if not any(isinstance(x, BatchLink) for x in task.operator_extra_links)
    }
    assert without == {"route", "nothing_to_do"}
