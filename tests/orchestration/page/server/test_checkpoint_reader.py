import json
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.report import BatchDelivery, BatchReport
from icefloe.checkpoint.record_store import PIPELINE, commit_key, offset_key, report_key
from icefloe.checkpoint.records import BatchOutcome
from icefloe.documents import dump_document
from icefloe.orchestration.page.checkpoint_reader import CheckpointReader
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.manifest import BatchSummary
from support.pipelines.pipeline_files import pipeline_from
from support.sample_records import a_commit, an_offset, the_pipeline

DELIVERY = BatchDelivery(
    sink="opensearch", url="https://search:9200/flights", parts=1, documents=3, repeated=0, retries=0, refused=0,
    dead_letters=0, superseded=0, bytes=9, visible_at="2026-11-21T07:05:00.000+00:00", lag_seconds=1.0, seconds=1.0,
)  # fmt: skip


def write(pipeline: Pipeline, key: str, text: str | bytes) -> None:
    path = Path(pipeline.checkpoint_url.removeprefix("file://"), key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def write_report(pipeline: Pipeline, **keys: Any) -> None:
    summary = BatchSummary.empty(pipeline.name, pipeline.table, batch_number=0, snapshot_id=7)
    report = BatchReport(**{"batch": summary, "warnings": (), "committed_at": "2026-11-21T07:05:00.000+00:00", **keys})
    write(pipeline, report_key(0), dump_document(report))


def write_commit(pipeline: Pipeline, outcome: BatchOutcome = BatchOutcome.DELIVERED) -> None:
    write(pipeline, commit_key(0), dump_document(a_commit(0, outcome=outcome)))


def test_a_batch_that_was_open_has_a_report_once_it_is_committed(tmp_path: Path) -> None:
    reader, pipeline = CheckpointReader(fresh_seconds=0), pipeline_from(tmp_path)
    write_report(pipeline)
    found = reader.reports(pipeline, [0])[0]
    assert (found.value, "there is no commit of batch 0 in" in (found.sentence or "")) == (None, True)
    write_commit(pipeline)
    found = reader.reports(pipeline, [0])[0]
    assert (found.sentence, found.value["batch"]["batch_number"]) == (None, 0)


def test_a_report_that_was_read_is_not_read_again(tmp_path: Path) -> None:
    reader, pipeline = CheckpointReader(fresh_seconds=0), pipeline_from(tmp_path)
    write_commit(pipeline)
    write_report(pipeline)
    first = reader.reports(pipeline, [0])[0].value
    write(pipeline, report_key(0), "another")
    assert reader.reports(pipeline, [0])[0].value == first


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (BatchOutcome.DELIVERED, "committed"),
        (BatchOutcome.ABANDONED, "abandoned"),
        (BatchOutcome.CURSOR_SET, "cursor set"),
    ],
)
def test_the_commit_says_how_a_batch_ended(tmp_path: Path, outcome: BatchOutcome, state: str) -> None:
    pipeline = pipeline_from(tmp_path)
    write_report(pipeline)
    write_commit(pipeline, outcome)
    assert CheckpointReader().reports(pipeline, [0])[0].value["state"] == state


@pytest.mark.parametrize("has_report", [True, False])
def test_the_report_of_a_run_that_a_reset_overtook_does_not_count(tmp_path: Path, has_report: bool) -> None:
    pipeline = pipeline_from(tmp_path)
    write(pipeline, PIPELINE, dump_document(the_pipeline()))
    write(pipeline, offset_key(0), dump_document(an_offset(0)))
    if has_report:
        write_report(pipeline, delivery=DELIVERY)
    write_commit(pipeline, BatchOutcome.ABANDONED)
    found = CheckpointReader().reports(pipeline, [0])[0].value
    assert (found["state"], found.get("delivery")) == ("abandoned", None)
    assert "was given up half delivered" in found["warnings"][0]


def test_a_pipeline_with_another_checkpoint_shows_nothing_of_the_one_before(tmp_path: Path) -> None:
    reader = CheckpointReader()
    for storage in ("staging", "production"):
        pipeline = pipeline_from(tmp_path, storage=f"file://{tmp_path}/{storage}")
        write_commit(pipeline)
        write_report(pipeline, warnings=(storage,))
        write(pipeline, "status.json", json.dumps(storage))
        assert reader.reports(pipeline, [0])[0].value["warnings"] == [storage]
        assert reader.statuses({"flights": pipeline})["flights"].value == storage


@pytest.mark.parametrize("text", ["{", "[" * 100_000, ""])
def test_a_damaged_document_is_a_sentence(tmp_path: Path, text: str) -> None:
    pipeline = pipeline_from(tmp_path)
    write(pipeline, "status.json", text)
    found = CheckpointReader().statuses({"flights": pipeline})["flights"]
    assert (found.sentence or "").endswith("status.json is not JSON: it is damaged")
