"""The page reads checkpoints on S3 with the pipelines' connections."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from icefloe.batch.phase_record import recorded_phase
from icefloe.batch.report import BatchReport
from icefloe.checkpoint.record_store import commit_key, offset_key, report_key
from icefloe.documents import dump_document
from icefloe.flow import Phase
from icefloe.orchestration.page.checkpoint_reader import CheckpointReader, Found
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.manifest import BatchSummary
from icefloe.storage.location import open_store
from support.pipelines.pipeline_files import pipeline_from
from support.sample_records import a_commit, an_offset
from support.servers.versitygw import Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]


@pytest.fixture
def connect(versitygw: Versitygw, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the connection ``lake_s3``."""

    def connect(**other: str) -> None:
        options = {**versitygw.options, **other}
        connection = {"conn_type": "generic", "extra": {"object_store_options": options}}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_S3", json.dumps(connection))

    connect()
    return connect


@pytest.fixture
def pipeline(tmp_path: Path, versitygw: Versitygw, connect: Callable[..., None]) -> Pipeline:
    """One whose checkpoint has a status, a report and an open batch."""
    made = pipeline_from(tmp_path, storage=f"s3://lake/{tmp_path.name}", storage_conn_id="lake_s3")
    checkpoint = open_store(made.checkpoint_url, options=versitygw.options)
    checkpoint.put("status.json", b'{"lag_snapshots": 2}')
    summary = BatchSummary.empty(made.name, made.table, batch_number=7, snapshot_id=7)
    report = BatchReport(batch=summary, warnings=(), committed_at="2026-11-21T07:05:00.000+00:00")
    checkpoint.put(report_key(7), dump_document(report))
    checkpoint.put(commit_key(7), dump_document(a_commit(7)))
    checkpoint.put(offset_key(8), dump_document(an_offset(8)))
    batch = f"{made.shuffle_url}/{an_offset(8).checkpoint_id}/8"
    with recorded_phase(open_store(batch, options=versitygw.options), Phase.SHUFFLE_READ):
        pass
    return made


def status(pipeline: Pipeline) -> Found:
    return CheckpointReader().statuses({"flights": pipeline})["flights"]


def test_the_page_reads_checkpoints_with_the_connection_of_the_pipeline(pipeline: Pipeline) -> None:
    reader = CheckpointReader()
    assert status(pipeline) == Found(value={"lag_snapshots": 2})
    reports = reader.reports(pipeline, [6, 7])
    assert (reports[7].value["batch"]["batch_number"], reports[7].value["state"]) == (7, "committed")
    assert "there is no commit of batch 6" in str(reports[6].sentence)
    assert [each["phase"] for each in reader.phases(pipeline, 8)] == ["shuffle_read"]


def test_wrong_credentials_are_a_sentence(pipeline: Pipeline, connect: Callable[..., None]) -> None:
    connect(secret_access_key="wrong" * 8)
    found = status(pipeline)
    assert "; check the credentials and the permissions of this place" in str(found.sentence)
    assert "wrongwrong" not in str(found.sentence)
