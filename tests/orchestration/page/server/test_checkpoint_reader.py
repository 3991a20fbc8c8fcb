from pathlib import Path

import pytest

from icefloe.checkpoint.record_store import report_key
from icefloe.orchestration.page.checkpoint_reader import CheckpointReader
from icefloe.pipeline.model import Pipeline
from support.pipelines.pipeline_files import pipeline_from


def write(pipeline: Pipeline, key: str, text: str) -> None:
    path = Path(pipeline.checkpoint_url.removeprefix("file://"), key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_report_that_was_missing_is_there_once_its_batch_is_committed(tmp_path: Path) -> None:
    reader, pipeline = CheckpointReader(fresh_seconds=0), pipeline_from(tmp_path)
    found = reader.reports(pipeline, [0])[0]
    assert (found.value, "there is no reports/0.json" in (found.sentence or "")) == (None, True)
    write(pipeline, report_key(0), '{"batch_number": 0}')
    assert reader.reports(pipeline, [0])[0].value == {"batch_number": 0}


def test_a_report_that_was_read_is_not_read_again(tmp_path: Path) -> None:
    reader, pipeline = CheckpointReader(fresh_seconds=0), pipeline_from(tmp_path)
    for text in ('{"batch_number": 0}', "another"):
        write(pipeline, report_key(0), text)
        assert reader.reports(pipeline, [0])[0].value == {"batch_number": 0}


def test_a_pipeline_with_another_checkpoint_shows_nothing_of_the_one_before(tmp_path: Path) -> None:
    reader = CheckpointReader()
    for storage in ("staging", "production"):
        pipeline = pipeline_from(tmp_path, storage=f"file://{tmp_path}/{storage}")
        write(pipeline, report_key(0), f'"{storage}"')
        write(pipeline, "status.json", f'"{storage}"')
        assert reader.reports(pipeline, [0])[0].value == storage
        assert reader.statuses({"flights": pipeline})["flights"].value == storage


@pytest.mark.parametrize("text", ["{", "[" * 100_000, ""])
def test_a_damaged_document_is_a_sentence(tmp_path: Path, text: str) -> None:
    pipeline = pipeline_from(tmp_path)
    write(pipeline, "status.json", text)
    found = CheckpointReader().statuses({"flights": pipeline})["flights"]
    assert (found.sentence or "").endswith("status.json is not JSON: it is damaged")
