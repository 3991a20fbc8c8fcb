"""Credentials from Airflow's connections, read when a task or a trigger runs and never before."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from icefloe.errors import TerminalError, TransientError
from icefloe.orchestration.connections.object_store_options import object_store_options
from icefloe.pipeline.model import Pipeline
from icefloe.redaction.hidden import hide
from icefloe.storage.dynamodb_access import coordinated

if TYPE_CHECKING:
    from icefloe.batch.credentials import Credentials

__all__ = ["resolve_credentials", "storage_options"]

_ICEBERG: Final = "iceberg"
_API_SERVER: Final = "Airflow's API server"


def find_connection(conn_id: str) -> Any | None:
    """The Airflow connection of that id, its secrets hidden; None if there is none or its URI is invalid.

    Code that opens a catalog or a store with a connection hides all of it. Other connections, such as Spark's, hold
    ordinary words too.

    Raises:
        TerminalError: its extra is no JSON object.
        TransientError: a place that may have the connection does not answer, or denies access.
    """
    connection = _found(conn_id)
    if connection is None and _is_kept(conn_id):
        # Its place answers again, or its URI is invalid.
        connection = _found(conn_id)
    if connection is None:
        return None
    fields = {"login": connection.login, "password": connection.password, "host": connection.host}
    extra = connection.extra_dejson
    hide({**fields, "extra": extra}, only_secrets=True)
    if not isinstance(extra, Mapping):
        raise TerminalError(
            f'the extra of the Airflow connection {conn_id!r} is no JSON object: write it as {{"key": "value"}}, not '
            "as a list or as a text in quotes",
            conn_id=conn_id,
        )
    return connection


def _found(conn_id: str) -> Any | None:
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return None
    except PermissionError as cause:
        raise _unanswered(conn_id, _API_SERVER, "access denied") from cause


def _is_kept(conn_id: str) -> bool:
    """True if a place has a connection that was not found. To Airflow, a place that fails is one that lacks it."""
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    return any(_is_kept_by(backend, conn_id) for backend in ensure_secrets_backend_loaded())


def _is_kept_by(backend: Any, conn_id: str) -> bool:
    from airflow.sdk.execution_time.secrets import ExecutionAPISecretsBackend

    if isinstance(backend, ExecutionAPISecretsBackend):
        return _is_kept_by_api_server(conn_id)
    try:
        try:
            # The text alone: a text that is no connection is a fault of the text, which stays.
            return bool(backend.get_conn_value(conn_id=conn_id))
        except NotImplementedError:
            return backend.get_connection(conn_id=conn_id) is not None
    except Exception as cause:
        raise _unanswered(conn_id, type(backend).__name__, type(cause).__name__) from cause


def _is_kept_by_api_server(conn_id: str) -> bool:
    """As `_is_kept_by`. Airflow's own backend turns every error into None."""
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection

    try:
        answer = task_runner.SUPERVISOR_COMMS.send(GetConnection(conn_id=conn_id))
    except AirflowRuntimeError as cause:
        answer = cause.error
    except Exception as cause:
        raise _unanswered(conn_id, _API_SERVER, type(cause).__name__) from cause
    if not isinstance(answer, ErrorResponse):
        return True
    if answer.error is ErrorType.CONNECTION_NOT_FOUND:
        return False
    raise _unanswered(conn_id, _API_SERVER, answer.error.value)


def _unanswered(conn_id: str, place: str, reason: str) -> TransientError:
    # Only the kind of the error: its text may give away a secret.
    return TransientError(
        f"the Airflow connection {conn_id!r} cannot be looked up: {place} failed ({reason}); try again", conn_id=conn_id
    )


def resolve_credentials(pipeline: Pipeline) -> "Credentials":
    """The credentials of the pipeline's catalog, storage and sink.

    A catalog that is no Airflow connection of type iceberg is left to PyIceberg's own configuration; a store without
    a connection is left to the machine's own identity.

    Raises:
        TerminalError: a connection the pipeline names for storage or sink is missing or of no known type.
        TransientError: see `find_connection`.
    """
    from icefloe.batch.credentials import Credentials

    is_files = pipeline.sink.type == "files"
    return Credentials(
        catalog_properties=_catalog_properties(pipeline.catalog) if isinstance(pipeline.catalog, str) else {},
        storage_options=storage_options(pipeline),
        sink_options=_store_options("sink.conn_id", pipeline.sink.conn_id) if is_files else {},
        sink_connection={} if is_files else _sink_connection(pipeline),
    )


def storage_options(pipeline: Pipeline) -> dict[str, str]:
    """The options of the pipeline's storage alone; arguments and errors as in ``resolve_credentials``."""
    options = _store_options("storage_conn_id", pipeline.storage_conn_id)
    return coordinated(options, pipeline.coordination, pipeline.storage_of_table)


def _catalog_properties(conn_id: str) -> dict[str, object]:
    connection = find_connection(conn_id)
    if connection is None or connection.conn_type != _ICEBERG:
        return {}
    # The properties that IcebergHook gives load_catalog; a test compares them. The hook would open the catalog again.
    properties = dict(connection.extra_dejson)
    if connection.host:
        properties["uri"] = connection.host.rstrip("/")
    properties.setdefault("type", "rest")
    if properties["type"] == "rest" and connection.login and connection.password:
        properties["credential"] = f"{connection.login}:{connection.password}"
    return properties


def _sink_connection(pipeline: Pipeline) -> dict[str, object]:
    conn_id = pipeline.sink.conn_id
    if conn_id is None:
        return {}
    connection = _defined("sink.conn_id", conn_id)
    names = ("conn_type", "host", "port", "schema", "login", "password")
    return {**{name: getattr(connection, name) for name in names}, "extra": dict(connection.extra_dejson)}


def _store_options(key: str, conn_id: str | None) -> dict[str, str]:
    if conn_id is None:
        return {}
    return object_store_options(_defined(key, conn_id))


def _defined(key: str, conn_id: str) -> Any:
    """The connection that a key names.

    Raises:
        TerminalError: it is not defined.
    """
    connection = find_connection(conn_id)
    if connection is None:
        raise TerminalError(f"{key} names the Airflow connection {conn_id!r}, which is not defined", conn_id=conn_id)
    return connection
