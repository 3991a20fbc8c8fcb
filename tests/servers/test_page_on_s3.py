"""The page reads checkpoints on S3 with the pipelines' connections."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from icefloe.checkpoint.record_store import offset_key, report_key
from icefloe.documents import dump_document
from icefloe.orchestration.page.checkpoint_reader import CheckpointReader, Found
from icefloe.pipeline.model import Pipeline
from icefloe.storage.location import open_store
from support.pipelines.pipeline_files import pipeline_from
from support.sample_records import an_offset
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
    checkpoint.put(report_key(7), b'{"batch_number": 7}')
    checkpoint.put(offset_key(8), dump_document(an_offset(8)))
    open_store(made.shuffle_url, options=versitygw.options).put(
        f"{an_offset(8).checkpoint_id}/8/phases/shuffle_read.json", b'{"phase": "shuffle_read"}'
    )
    return made


def status(pipeline: Pipeline) -> Found:
    return CheckpointReader().statuses({"flights": pipeline})["flights"]


def test_the_page_reads_checkpoints_with_the_connection_of_the_pipeline(pipeline: Pipeline) -> None:
    reader = CheckpointReader()
    assert status(pipeline) == Found(value={"lag_snapshots": 2})
    reports = reader.reports(pipeline, [6, 7])
    assert reports[7].value == {"batch_number": 7}
    assert "there is no reports/" in str(reports[6].sentence)
    assert reader.phases(pipeline, 8) == [{"phase": "shuffle_read"}]


def test_wrong_credentials_are_a_sentence(pipeline: Pipeline, connect: Callable[..., None]) -> None:
    connect(secret_access_key="wrong" * 8)
    found = status(pipeline)
    assert "; check the credentials and the permissions of this place" in str(found.sentence)
    assert "wrongwrong" not in str(found.sentence)
