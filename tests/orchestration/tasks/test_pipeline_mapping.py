import json
from pathlib import Path

from icefloe.orchestration.tasks.task_documents import pipeline_from_mapping, pipeline_to_mapping
from support.pipelines.pipeline_files import pipeline_from


def test_a_pipeline_comes_back_from_json_without_its_file(tmp_path: Path) -> None:
    pipeline = pipeline_from(tmp_path, "flights", identifier_columns=["flight_id"], spark={"conf": {"spark.x": 1}})
    mapping = json.loads(json.dumps(pipeline_to_mapping(pipeline)))
    (tmp_path / "flights.yaml").unlink()
    assert pipeline_from_mapping(mapping) == pipeline
    assert pipeline_from_mapping(mapping).name == "flights"


def test_variables_stay_unexpanded(tmp_path: Path) -> None:
    pipeline = pipeline_from(tmp_path, storage="s3://${BUCKET}/icefloe")
    assert pipeline_from_mapping(pipeline_to_mapping(pipeline)).storage == "s3://${BUCKET}/icefloe"
