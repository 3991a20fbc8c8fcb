"""The page reads checkpoints on S3 with the pipelines' connections."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.servers.free_port import free_port
from icefloe.checkpoint.record_store import offset_key, report_key
from icefloe.documents import dump_document
from icefloe.orchestration.page.checkpoint_reader import CheckpointReader
from icefloe.orchestration.page.document_cache import Found
from icefloe.pipeline.model import Pipeline
from icefloe.storage.location import open_store
from support.pipelines.pipeline_files import pipeline_from
from support.sample_records import an_offset
from support.servers.versitygw import Versitygw

_PAUSE_SECONDS = 0.05

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


@pytest.fixture
def silent_port() -> Iterator[int]:
    """The address of a listener that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


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


def test_a_connection_that_is_not_there_is_a_sentence(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_LAKE_S3")
    assert "lake_s3" in str(status(pipeline).sentence)


@pytest.mark.parametrize("kind", ["dead", "silent"])
def test_a_store_that_does_not_answer_is_a_sentence_and_no_wait(
    pipeline: Pipeline, connect: Callable[..., None], silent_port: int, kind: str
) -> None:
    connect(endpoint=f"http://127.0.0.1:{silent_port if kind == 'silent' else free_port()}")
    reader = CheckpointReader(deadline_seconds=0.5, fresh_seconds=3_600)

    def ask() -> Any:
        return reader.statuses({"flights": pipeline})["flights"]

    # The sentence is not the store's own, which comes after its patience of some seconds.
    first = ask()
    assert (first.value, str(first.sentence).partition(" did ")[2]) == (
        None, "not answer within 0.5 seconds; the page looks again"
    )  # fmt: skip
    connect()
    while (found := ask()).value is None:
        assert "the page looks again" in str(found.sentence)
        time.sleep(_PAUSE_SECONDS)
    assert found == Found(value={"lag_snapshots": 2})
