from pathlib import Path

from icefloe.orchestration.tasks.task_documents import PipelineFacts, broken_document, pipeline_facts_document
from support.pipelines.pipeline_files import pipeline_from


def test_the_pipeline_in_a_dag_is_read_back(tmp_path: Path) -> None:
    pipeline = pipeline_from(tmp_path, storage_conn_id="lake_s3")
    facts = PipelineFacts.of({"plan": pipeline_facts_document(pipeline), "other": "no JSON"})
    assert facts.pipeline == pipeline
    assert facts.path == pipeline.path


def test_the_environment_stays_unexpanded(tmp_path: Path) -> None:
    text = pipeline_facts_document(pipeline_from(tmp_path, storage="${LAKE}/x"))
    assert "${LAKE}/x" in text


def test_a_broken_file_is_named_once() -> None:
    path = Path("/opt/dags/pipelines/flights.yaml")
    facts = PipelineFacts.of({"broken": broken_document(path, f"{path}:3: unknown key 'tabel'")})
    assert (facts.sentence, facts.path) == ("flights.yaml:3: unknown key 'tabel'", str(path))


def test_a_document_of_another_release_is_a_sentence_or_nothing() -> None:
    assert PipelineFacts.of({"plan": '{"version": 2}'}) == PipelineFacts()
    later = PipelineFacts.of({"plan": '{"version": 1, "pipeline": {"path": "x.yaml", "data": {"later": 1}}}'})
    assert later.sentence is not None
    assert "cannot read" in later.sentence
