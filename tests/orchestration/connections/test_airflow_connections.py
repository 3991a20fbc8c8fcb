import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.iceberg.hooks import iceberg
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import supervisor, task_runner
from airflow.sdk.execution_time.comms import ConnectionResult, ErrorResponse
from airflow.secrets import BaseSecretsBackend

from icefloe.errors import TerminalError, TransientError
from icefloe.orchestration.connections import find_connection, resolve_credentials
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
    mapping = pipeline_from(tmp_path, catalog={"type": "sql", "uri": "sqlite:////lake/catalog.db"})
    assert resolve_credentials(mapping).catalog_properties == {}
    assert resolve_credentials(pipeline_from(tmp_path)).catalog_properties == {}
    define(monkeypatch, "lakehouse", conn_type="postgres", host="h")
    assert resolve_credentials(pipeline_from(tmp_path)).catalog_properties == {}


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


@pytest.mark.parametrize("extra", [["a"], "5", '"{\\"region_name\\": \\"eu\\"}"'])
def test_an_extra_that_is_no_object_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: list[str] | str
) -> None:
    of_catalog: dict[str, Any] = {}
    of_storage: dict[str, Any] = {"catalog": {"type": "sql"}, "storage_conn_id": "lakehouse"}
    define(monkeypatch, "lakehouse", conn_type="iceberg", extra=extra)
    for keys in (of_catalog, of_storage):
        with pytest.raises(TerminalError, match="the extra of the Airflow connection 'lakehouse' is no JSON object"):
            resolve_credentials(pipeline_from(tmp_path, **keys))


def test_of_a_spark_connection_the_words_that_a_user_needs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"queue": "root", "deploy-mode": "client", "spark-binary": "spark-submit", "keytab_password": SECRET}
    for host in ("yarn", "local", "spark://me:s3cr3t@master", "me:t0k3n@master"):
        define(monkeypatch, "spark", conn_type="spark", host=host, login="airflow", password="pa55word", extra=extra)
        find_connection("spark")
    said = "airflow runs spark-submit --master yarn --queue root, client, local, at spark://master"
    assert redacted_foreign(said) == said
    assert redacted_foreign(f"{SECRET} pa55word s3cr3t t0k3n") == "*** *** *** ***"


class ApiServer:
    """Airflow's API server, as a task sees it through its supervisor."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    def send(self, _: object) -> object:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def failed(kind: ErrorType) -> ErrorResponse:
    return ErrorResponse(error=kind, detail={"message": f"at https://me:{SECRET}@api"})


SILENT = AirflowRuntimeError(failed(ErrorType.API_SERVER_ERROR))
UNKNOWN = failed(ErrorType.CONNECTION_NOT_FOUND)
KNOWN = ConnectionResult(
    conn_id="lake", conn_type="aws", host=None, schema=None, login="a", password=SECRET, port=None, extra=None
)


@pytest.fixture
def api_server(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives this process a supervisor, behind which the API server answers in this order."""

    def answers(*expected: object) -> None:
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", ApiServer(*expected), raising=False)

    return answers


@pytest.mark.parametrize(
    "answer", [SILENT, failed(ErrorType.GENERIC_ERROR), failed(ErrorType.PERMISSION_DENIED), EOFError("closed")]
)
def test_a_connection_that_the_api_server_does_not_give_may_be_there_later(
    tmp_path: Path, api_server: Callable[..., None], answer: object
) -> None:
    api_server(answer)
    of_catalog: dict[str, Any] = {}
    of_storage: dict[str, Any] = {"catalog": {"type": "sql"}, "storage_conn_id": "lake"}
    for keys in (of_catalog, of_storage):
        with pytest.raises(TransientError, match=r"cannot be looked up: Airflow's API server failed \(") as failure:
            resolve_credentials(pipeline_from(tmp_path, **keys))
        assert SECRET not in failure.value.sentence


def test_a_connection_is_found_when_the_api_server_answers_again(api_server: Callable[..., None]) -> None:
    api_server(SILENT, KNOWN)
    assert find_connection("lake").login == "a"
    api_server(UNKNOWN)
    assert find_connection("lake") is None


class Vault(BaseSecretsBackend):
    """A secrets backend that fails, or keeps a text."""

    def __init__(self, kept: str | Exception) -> None:
        self.kept = kept
        self._set_connection_class(Connection)

    def get_conn_value(self, conn_id: str, team_name: str | None = None) -> str:  # noqa: ARG002 - Airflow's signature
        if isinstance(self.kept, Exception):
            raise self.kept
        return self.kept


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | Exception], None]:
    def keeps(kept: str | Exception) -> None:
        monkeypatch.setattr(supervisor, "ensure_secrets_backend_loaded", lambda: [Vault(kept)])

    return keeps


def test_a_secrets_backend_that_fails_may_have_the_connection_and_a_text_that_is_none_is_none(
    vault: Callable[[str | Exception], None],
) -> None:
    vault(ConnectionError(f"https://me:{SECRET}@vault"))
    with pytest.raises(
        TransientError, match=r"'lake' cannot be looked up: Vault failed \(ConnectionError\); try again$"
    ):
        find_connection("lake")
    vault("{not json")
    assert find_connection("lake") is None
