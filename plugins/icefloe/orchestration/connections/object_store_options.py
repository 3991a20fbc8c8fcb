"""From an Airflow connection to the options of an object store."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from icefloe.errors import TerminalError
from icefloe.storage.certificates import with_certificates
from icefloe.units import is_on

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
    aws, s3                 login, password; extra: aws_access_key_id, aws_secret_access_key,
                            aws_session_token, region_name, endpoint_url or that of s3 in
                            service_config, allow_http, verify (file of the authorities' certificates)
    google_cloud_platform   extra: key_path, keyfile_dict
    wasb, adls, azure       login, password (account and key; client and secret with a tenant_id);
                            host (https://ACCOUNT...); extra: sas_token, tenant_id, account_name
    generic                 nothing; Airflow's type for connections whose provider is not installed
    ======================  =======================================================================

    ``object_store_options`` in the extra, a mapping, is added to the options of any type as it is.

    Raises:
        TerminalError: another type of connection, a key by which Airflow's own hooks are another user, options
            that are no mapping, or a file of certificates that cannot be read.
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
    if not own:
        _refuse_other_identity(connection)
    options |= own
    # The workers of Spark get the certificates themselves: they may lack the file.
    return with_certificates({name: str(value) for name, value in options.items() if value})


def _refuse_other_identity(connection: StoreConnection) -> None:
    for key, value in connection.extra_dejson.items():
        if key in _NOT_FOLLOWED and is_on(value or False, otherwise=True):
            raise TerminalError(
                f"the connection {connection.conn_id!r} has {key} in its extra, which Airflow's own hooks follow and "
                "icefloe does not, so it would be another user: add object_store_options to the extra with all that "
                "opens the store, or name another connection",
                conn_id=connection.conn_id,
                key=key,
            )


def _parsed(value: object) -> object:
    """A value of the extra; its JSON text is read if the connection is written as a URI."""
    if isinstance(value, str):
        with suppress(ValueError):
            return json.loads(value)
    return value


def _own_options(connection: StoreConnection) -> Mapping[str, object]:
    """The options that are written as obstore has them."""
    written = _parsed(connection.extra_dejson.get("object_store_options") or {})
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
