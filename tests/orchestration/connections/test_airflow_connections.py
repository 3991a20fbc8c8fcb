import json
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.iceberg.hooks import iceberg

from icefloe.errors import TerminalError
from icefloe.orchestration.connections.airflow_connections import find_connection, resolve_credentials
from icefloe.redaction.hidden import redacted_foreign
from support.pipelines.pipeline_files import pipeline_from

SECRET = "hunter2"

ICEBERG_CONNECTIONS: list[dict[str, Any]] = [
    {"host": "https://catalog.example/ws/", "login": "id", "password": SECRET},
    {"host": "https://catalog.example", "login": "id"},
    {"extra": {"type": "sql", "uri": "sqlite:////lake/catalog.db", "warehouse": "file:///lake"}},
    {"host": "thrift://metastore:9083", "login": "id", "password": SECRET, "extra": {"type": "hive"}},
    {"extra": {"auth": {"type": "oauth2", "oauth2": {"client_id": "id", "client_secret": SECRET}}}},
]


def define(monkeypatch: pytest.MonkeyPatch, conn_id: str, **fields: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))


@pytest.mark.parametrize("fields", ICEBERG_CONNECTIONS)
def test_catalog_properties_are_those_the_provider_would_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    define(monkeypatch, "lakehouse", conn_type="iceberg", **fields)
    loaded: list[Any] = []
    monkeypatch.setattr(iceberg, "load_catalog", lambda name, **properties: loaded.append((name, properties)))
    _ = iceberg.IcebergHook("lakehouse").catalog
    found = resolve_credentials(pipeline_from(tmp_path)).catalog_properties
    assert loaded == [("lakehouse", found)]


def test_a_catalog_that_is_no_connection_is_left_to_pyiceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_credentials(pipeline_from(tmp_path)).catalog_properties == {}
    define(monkeypatch, "lakehouse", conn_type="postgres", host="h")
    assert resolve_credentials(pipeline_from(tmp_path)).catalog_properties == {}


def test_a_mapping_asks_for_no_connection(tmp_path: Path) -> None:
    pipeline = pipeline_from(tmp_path, catalog={"type": "sql", "uri": "sqlite:////lake/catalog.db"})
    assert resolve_credentials(pipeline).catalog_properties == {}


def test_storage_and_sink_have_credentials_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    define(monkeypatch, "store", conn_type="aws", login="a", password=SECRET)
    define(monkeypatch, "lake", conn_type="aws", login="b", password=SECRET)
    sink = {"type": "files", "path": "s3://lake/changes", "conn_id": "lake"}
    found = resolve_credentials(pipeline_from(tmp_path, storage_conn_id="store", sink=sink))
    assert found.storage_options == {"access_key_id": "a", "secret_access_key": SECRET}
    assert found.sink_options == {"access_key_id": "b", "secret_access_key": SECRET}
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"storage_conn_id": "nowhere"}, "storage_conn_id"),
        ({"sink": {"type": "files", "path": "s3://lake/changes", "conn_id": "nowhere"}}, r"sink\.conn_id"),
    ],
)
def test_a_named_connection_that_is_missing_is_an_error(tmp_path: Path, keys: dict[str, Any], key: str) -> None:
    with pytest.raises(TerminalError, match=f"{key} names the Airflow connection 'nowhere', which is not defined"):
        resolve_credentials(pipeline_from(tmp_path, **keys))


def test_of_a_spark_connection_the_words_that_a_user_needs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"queue": "root", "deploy-mode": "client", "spark-binary": "spark-submit", "keytab_password": SECRET}
    for host in ("yarn", "local", "spark://me:s3cr3t@master", "me:t0k3n@master"):
        define(monkeypatch, "spark", conn_type="spark", host=host, login="airflow", password="pa55word", extra=extra)
        find_connection("spark")
    said = "airflow runs spark-submit --master yarn --queue root, client, local, at spark://master"
    assert redacted_foreign(said) == said
    assert redacted_foreign(f"{SECRET} pa55word s3cr3t t0k3n") == "*** *** *** ***"


def test_an_unknown_connection_is_none() -> None:
    assert find_connection("nowhere_at_all") is None
