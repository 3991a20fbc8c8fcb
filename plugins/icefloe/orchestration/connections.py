"""Credentials from Airflow's connections."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from icefloe.engines.spark.master import SparkMaster, spark_master
from icefloe.errors import TerminalError, TransientError
from icefloe.pipeline.model import Pipeline
from icefloe.redaction.hidden import hide
from icefloe.storage.options import coordinated, with_certificates
from icefloe.units import is_on

if TYPE_CHECKING:
    from icefloe.batch.run_settings import Credentials


__all__ = ["resolve_credentials"]


_AWS: Final = {
    "aws_session_token": "session_token", "region_name": "region", "endpoint_url": "endpoint",
    "allow_http": "allow_http",
}  # fmt: skip
_NOT_FOLLOWED: Final = frozenset({
    "role_arn", "profile_name", "session_kwargs",
    "connection_string", "shared_access_key", "managed_identity_client_id", "workload_identity_tenant_id",
    "impersonation_chain", "key_secret_name", "credential_config_file", "is_anonymous",
})  # fmt: skip
"""Keys of the extra by which Airflow's own hooks take another identity, or another server."""
_AZURE: Final = {"sas_token": "sas_token", "tenant_id": "tenant_id"}


def object_store_options(connection: Any) -> dict[str, str]:
    """The obstore options that a connection sets.

    ======================  =======================================================================
    type                    used fields
    ======================  =======================================================================
    aws, s3                 login, password; extra: aws_access_key_id, aws_secret_access_key,
                            aws_session_token, region_name, endpoint_url or that of s3 in
                            service_config, allow_http, verify (file of the authorities' certificates)
    google_cloud_platform   extra: key_path, keyfile_dict
    wasb, adls, azure       login, password (account and key; client and secret with a tenant_id);
                            host (https://ACCOUNT...); extra: sas_token, tenant_id, account_name
    generic                 nothing; Airflow's type for connections whose provider is not installed
    ======================  =======================================================================

    ``object_store_options`` in the extra, a mapping, is added to the options of any type as it is.
    """
    extra = connection.extra_dejson
    match connection.conn_type:
        case "aws" | "s3":
            options = _aws(connection, extra)
        case "google_cloud_platform" | "gcp" | "google":
            options = _google(extra)
        case "wasb" | "adls" | "azure" | "azure_data_lake":
            options = _azure(connection, extra)
        case "generic" if _own_options(connection):
            options = {}
        case other:
            raise TerminalError(
                f"the connection {connection.conn_id!r} is of type {other!r}, which names no object store: expected "
                "aws, google_cloud_platform, wasb or adls, or generic with object_store_options in its extra",
                conn_id=connection.conn_id,
            )
    own = _own_options(connection)
    followed = [key for key, value in extra.items() if key in _NOT_FOLLOWED and is_on(value or False, otherwise=True)]
    if followed and not own:
        raise TerminalError(
            f"the connection {connection.conn_id!r} has {followed[0]} in its extra, which Airflow's own hooks follow "
            "and icefloe does not, so it would be another user: add object_store_options to the extra with all that "
            "opens the store, or name another connection",
            conn_id=connection.conn_id,
        )
    options |= own
    # The workers of Spark get the certificates themselves: they may lack the file.
    return with_certificates({name: str(value) for name, value in options.items() if value})


def _parsed(value: object) -> object:
    """A value of the extra, parsed from JSON text if the connection is a URI."""
    if isinstance(value, str):
        with suppress(ValueError):
            return json.loads(value)
    return value


def _own_options(connection: Any) -> Mapping[str, object]:
    written = _parsed(connection.extra_dejson.get("object_store_options") or {})
    if not isinstance(written, Mapping):
        raise TerminalError(
            f"object_store_options in the extra of the connection {connection.conn_id!r} is no mapping of options: "
            'write it as {"region": "us-east-1"}, in a URI as that text',
            conn_id=connection.conn_id,
        )
    return written


def _aws(connection: Any, extra: Mapping[str, object]) -> dict[str, object]:
    options = {option: extra.get(key) for key, option in _AWS.items()}
    # Airflow's own hooks take false for "check nothing", which is no file.
    bundle = extra.get("verify")
    is_file = isinstance(bundle, str) and bundle.lower() not in ("true", "false")
    options["root_certificate"] = bundle if is_file else None
    services = _parsed(extra.get("service_config"))
    of_s3 = services.get("s3") if isinstance(services, Mapping) else None
    if isinstance(of_s3, Mapping) and of_s3.get("endpoint_url"):
        options["endpoint"] = of_s3["endpoint_url"]
    if not (connection.login and connection.password) and extra.get("aws_access_key_id"):
        keys = extra["aws_access_key_id"], extra.get("aws_secret_access_key")
    else:
        keys = connection.login, connection.password
    return options | {"access_key_id": keys[0], "secret_access_key": keys[1]}


def _google(extra: Mapping[str, Any]) -> dict[str, Any]:
    key = extra.get("keyfile_dict")
    return {
        "service_account": extra.get("key_path"),
        "service_account_key": json.dumps(key) if isinstance(key, Mapping) else key,
    }


def _azure(connection: Any, extra: Mapping[str, object]) -> dict[str, object]:
    host = (connection.host or "").removeprefix("https://").partition(".")[0]
    options = {option: extra.get(key) for key, option in _AZURE.items()}
    if options["tenant_id"]:
        options |= {"client_id": connection.login, "client_secret": connection.password}
        account = extra.get("account_name") or host
    else:
        options |= {"account_key": connection.password}
        account = extra.get("account_name") or host or connection.login
    return options | {"account_name": account}


_ICEBERG: Final = "iceberg"
_API_SERVER: Final = "Airflow's API server"


def find_connection(conn_id: str) -> Any | None:
    """The Airflow connection of that id, its secrets hidden; None if missing or its URI is invalid."""
    # Code that opens a catalog or a store hides all of a connection. Others, such as Spark's, hold ordinary words too.
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    connection = _found(conn_id)
    # To Airflow, a failing place lacks a connection. One that has it answers again, or its URI is invalid.
    if connection is None and any(_is_kept_by(backend, conn_id) for backend in ensure_secrets_backend_loaded()):
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
    """As `_is_kept_by`; Airflow's own backend turns every error into None."""
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
    """The credentials of catalog, storage and sink.

    A catalog that is no Airflow connection of type iceberg is left to PyIceberg's configuration; a store without a
    connection to the machine's identity.
    """
    from icefloe.batch.run_settings import Credentials

    is_files = pipeline.sink.type == "files"
    return Credentials(
        catalog_properties=_catalog_properties(pipeline.catalog) if isinstance(pipeline.catalog, str) else {},
        storage_options=storage_options(pipeline),
        sink_options=_store_options("sink.conn_id", pipeline.sink.conn_id) if is_files else {},
        sink_connection={} if is_files else _sink_connection(pipeline),
    )


def storage_options(pipeline: Pipeline) -> dict[str, str]:
    """The options of the storage alone, as in ``resolve_credentials``."""
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
    conn_id, catalog = pipeline.sink.conn_id, pipeline.sink.options.get("catalog")
    if pipeline.sink.has_catalog and isinstance(catalog, str):
        return {"properties": _catalog_properties(catalog) or None}
    if conn_id is None:
        return {}
    connection = _defined("sink.conn_id", conn_id)
    names = ("conn_type", "host", "port", "schema", "login", "password")
    return {**{name: getattr(connection, name) for name in names}, "extra": dict(connection.extra_dejson)}


def _store_options(key: str, conn_id: str | None) -> dict[str, str]:
    return {} if conn_id is None else object_store_options(_defined(key, conn_id))


def _defined(key: str, conn_id: str) -> Any:
    connection = find_connection(conn_id)
    if connection is None:
        raise TerminalError(f"{key} names the Airflow connection {conn_id!r}, which is not defined", conn_id=conn_id)
    return connection


def master_of(pipeline: Pipeline) -> SparkMaster:
    """The Spark master of an expanded pipeline."""
    conn_id = pipeline.spark.conn_id
    return spark_master(conn_id, find_connection(conn_id), conf=pipeline.spark.conf)
