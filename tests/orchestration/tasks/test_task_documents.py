"""Pipelines in DAGs and triggers, and the link to a batch."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from icefloe.errors import TerminalError
from icefloe.orchestration.dags.dag_factory import pipeline_dag
from icefloe.orchestration.tasks.calls import plan_batch
from icefloe.orchestration.tasks.plugin_parts import BatchLink
from icefloe.orchestration.tasks.task_documents import (
    PipelineFacts,
    broken_document,
    pipeline_facts_document,
    pipeline_from_mapping,
    pipeline_to_mapping,
)
from icefloe.pipeline.model import Pipeline
from support.pipelines.pipeline_files import pipeline_from
from support.pipelines.workspace import Workspace

RUN = SimpleNamespace(dag_id="flights", run_id="manual__2026-11-21T10:00:00+00:00")


def test_a_pipeline_comes_back_from_json_without_its_file_and_unexpanded(tmp_path: Path) -> None:
    pipeline = pipeline_from(tmp_path, storage="s3://${BUCKET}/icefloe", spark={"conf": {"spark.x": 1}})
    mapping = json.loads(json.dumps(pipeline_to_mapping(pipeline)))
    facts = PipelineFacts.by_group({"plan": pipeline_facts_document(pipeline), "other": "no JSON"})[""]
    (tmp_path / "flights.yaml").unlink()
    assert pipeline_from_mapping(mapping) == facts.pipeline == pipeline
    assert (pipeline_from_mapping(mapping).name, pipeline.storage) == ("flights", "s3://${BUCKET}/icefloe")
    assert facts.path == pipeline.path


def test_a_broken_file_is_named_once() -> None:
    path = Path("/opt/dags/pipelines/flights.yaml")
    facts = PipelineFacts.by_group({"broken": broken_document(path, f"{path}:3: unknown key 'tabel'")})[""]
    assert (facts.sentence, facts.path) == ("flights.yaml:3: unknown key 'tabel'", str(path))


def test_a_document_of_another_release_is_a_sentence_or_nothing() -> None:
    later = '{"version": 1, "pipeline": {"path": "x.yaml", "data": {"later": 1}}}'
    found = PipelineFacts.by_group(
        {"a.plan": '{"version": 2}', "b.c.plan": later, "of somebody else": '{"version": 1}', "d": "[1]"}
    )
    [(group, later_facts)] = found.items()
    assert group == "b.c"
    assert "cannot read" in (later_facts.sentence or "")


def test_a_link_leads_to_the_tab_of_the_run_below_where_airflow_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    tab = "/dags/flights/runs/manual__2026-11-21T10%3A00%3A00%2B00%3A00/plugin/icefloe-run"
    assert BatchLink().get_link(None, ti_key=RUN) == tab
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.com/airflow/")
    assert BatchLink().get_link(None, ti_key=RUN) == f"/airflow{tab}"


def test_every_task_that_works_on_a_batch_has_the_link(tmp_path: Path) -> None:
    dag = pipeline_dag(pipeline_from(tmp_path), tmp_path / "flights.yaml")
    linked = {each.task_id for each in dag.tasks if any(isinstance(x, BatchLink) for x in each.operator_extra_links)}
    assert set(dag.task_ids) - linked == {"route", "nothing_to_do"}


def test_a_table_on_a_disk_of_one_machine_is_refused_for_a_cluster_before_a_batch_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://master:7077")
    sink = {"type": "files", "path": "s3://nobody-made-this/changes"}
    path = Workspace.create(tmp_path).pipeline(engine="spark", storage="s3://nobody-made-this/icefloe", sink=sink)
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(TerminalError, match=r"^the location of db\.events is file://.*, a disk of one machine, but the"),
    ):
        plan_batch(Pipeline.load(path), None)
    assert "credentials cross the network to the workers of spark://master:7077 unencrypted" in caplog.text
