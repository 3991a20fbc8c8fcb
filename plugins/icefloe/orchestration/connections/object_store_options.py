"""From an Airflow connection to the options of an object store."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from icefloe.errors import TerminalError
from icefloe.storage.certificates import with_certificates

_AWS: Final = {
    "aws_session_token": "session_token", "region_name": "region", "endpoint_url": "endpoint",
    "allow_http": "allow_http",
}  # fmt: skip
_AZURE: Final = {"sas_token": "sas_token", "tenant_id": "tenant_id"}


class StoreConnection(Protocol):
    """The attributes of an Airflow connection that open an object store."""

    conn_id: str
    conn_type: str
    host: str | None
    login: str | None
    password: str | None

    @property
    def extra_dejson(self) -> Mapping[str, Any]:
        """The connection's extra, parsed."""


def object_store_options(connection: StoreConnection) -> dict[str, str]:
    """The obstore options of a connection; values that are not set are left out.

    ======================  =======================================================================
    type                    used fields
    ======================  =======================================================================
    aws, s3                 login, password; extra: aws_session_token, region_name, endpoint_url,
                            allow_http, verify (file of the authorities' certificates)
    google_cloud_platform   extra: key_path, keyfile_dict
    wasb, adls, azure       login, password (account and key; client and secret with a tenant_id);
                            host (https://ACCOUNT...); extra: sas_token, tenant_id, account_name
    generic                 nothing; Airflow's type for connections whose provider is not installed
    ======================  =======================================================================

    ``object_store_options`` in the extra, a mapping, is added to the options of any type as it is.

    Raises:
        TerminalError: another type of connection, options that are no mapping, or a file of certificates that cannot be
            read.
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
    options |= _own_options(connection)
    # The workers of Spark get the certificates themselves: they may lack the file.
    return with_certificates({name: str(value) for name, value in options.items() if value})


def _own_options(connection: StoreConnection) -> Mapping[str, object]:
    """The options that are written as obstore has them; as JSON text if the connection is written as a URI."""
    written = connection.extra_dejson.get("object_store_options") or {}
    if isinstance(written, str):
        with suppress(ValueError):
            written = json.loads(written)
    if not isinstance(written, Mapping):
        raise TerminalError(
            f"object_store_options in the extra of the connection {connection.conn_id!r} is no mapping of options: "
            'write it as {"region": "us-east-1"}, in a URI as that text',
            conn_id=connection.conn_id,
        )
    return written


def _aws(connection: StoreConnection, extra: Mapping[str, object]) -> dict[str, object]:
    options = {option: extra.get(key) for key, option in _AWS.items()}
    # Airflow's own hooks take false for "check nothing", which is no file.
    bundle = extra.get("verify")
    is_file = isinstance(bundle, str) and bundle.lower() not in ("true", "false")
    options["root_certificate"] = bundle if is_file else None
    return options | {"access_key_id": connection.login, "secret_access_key": connection.password}


def _google(extra: Mapping[str, Any]) -> dict[str, Any]:
    key = extra.get("keyfile_dict")
    return {
        "service_account": extra.get("key_path"),
        "service_account_key": json.dumps(key) if isinstance(key, Mapping) else key,
    }


def _azure(connection: StoreConnection, extra: Mapping[str, object]) -> dict[str, object]:
    host = (connection.host or "").removeprefix("https://").partition(".")[0]
    options = {option: extra.get(key) for key, option in _AZURE.items()}
    if options["tenant_id"]:
        options |= {"client_id": connection.login, "client_secret": connection.password}
        account = extra.get("account_name") or host
    else:
        options |= {"account_key": connection.password}
        account = extra.get("account_name") or host or connection.login
    return options | {"account_name": account}
