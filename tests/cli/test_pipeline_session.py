import pytest

from icefloe.cli.pipeline_session import credentials_here, warn_of_connections
from icefloe.pipeline.pipeline_file import load_pipeline
from support.pipelines.workspace import Workspace, icefloe


def test_a_connection_of_airflow_is_said_to_be_unknown_here(workspace: Workspace) -> None:
    done = icefloe("run", workspace.pipeline(storage_conn_id="lake"), "--json")
    assert done.code == 0
    assert "storage_conn_id names the Airflow connection 'lake'" in done.sentence
    assert "the machine's own identity is used" in done.sentence


def test_the_engine_of_the_command_counts_before_anything_asks_for_it(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(engine="spark", spark={"conf": {"spark.cores.max": "many"}})
    assert "spark.cores.max" in icefloe("run", pipeline).sentence
    assert icefloe("run", pipeline, "--engine", "local").code == 0


def test_the_password_of_a_sink_is_found_in_the_environment(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = {"type": "opensearch", "index": "events", "conn_id": "search"}
    pipeline = load_pipeline(workspace.pipeline(sink=sink), environ={})
    warn_of_connections(pipeline)
    assert "unknown outside Airflow: set AIRFLOW_CONN_SEARCH to it, in JSON" in caplog.text
    caplog.clear()
    monkeypatch.setenv("AIRFLOW_CONN_SEARCH", '{"host": "https://search.example", "password": "pw"}')
    warn_of_connections(pipeline)
    assert caplog.text == ""
    assert credentials_here(pipeline).sink_connection["password"] == "pw"
    files = load_pipeline(
        workspace.pipeline(sink={"type": "files", "path": "file:///x", "conn_id": "search"}), environ={}
    )
    assert credentials_here(files).sink_connection == {}
