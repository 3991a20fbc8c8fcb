"""Credentials from Airflow's connections, read when a task or a trigger runs and never before."""

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from icefloe.errors import TerminalError
from icefloe.orchestration.connections.object_store_options import object_store_options
from icefloe.pipeline.model import Pipeline
from icefloe.redaction.hidden import hide
from icefloe.storage.dynamodb_access import coordinated

if TYPE_CHECKING:
    from icefloe.batch.credentials import Credentials

__all__ = ["resolve_credentials", "storage_options"]

_ICEBERG: Final = "iceberg"


def find_connection(conn_id: str) -> Any | None:
    """The Airflow connection of that id, its secrets hidden; None if there is none or its URI is invalid.

    Code that opens a catalog or a store with a connection hides all of it. Other connections, such as Spark's, hold
    ordinary words too.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return None
    fields = {"login": connection.login, "password": connection.password, "host": connection.host}
    hide({**fields, "extra": connection.extra_dejson}, only_secrets=True)
    return connection


def resolve_credentials(pipeline: Pipeline) -> "Credentials":
    """The credentials of the pipeline's catalog, storage and sink.

    A catalog that is no Airflow connection of type iceberg is left to PyIceberg's own configuration; a store without
    a connection is left to the machine's own identity.

    Raises:
        TerminalError: a connection the pipeline names for storage or sink is missing or of no known type.
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
    return coordinated(_store_options("storage_conn_id", pipeline.storage_conn_id), pipeline.coordination)


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
