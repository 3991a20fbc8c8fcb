"""The sink's keys and connection, checked."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator

from icefloe.documents import Document
from icefloe.errors import TerminalError
from icefloe.pipeline.url import is_address
from icefloe.redaction.hidden import hide
from icefloe.sinks.dead_letters import DeadLetterSettings
from icefloe.sinks.key_changes import Duplicates
from icefloe.sinks.sink import SizeBytes, checked_options
from icefloe.units import is_on, parse_seconds

_BULK_BYTES: Final = 5 * 2**20
_LEAST_AGE_SECONDS: Final = 3600.0
_INDEX_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}")
"""A cluster takes 255 bytes: there must be room for what stands after it in the names of indexes and aliases."""
_EXTRA_KEYS: Final = frozenset({"api_key", "ca_certs", "use_ssl", "aws_region", "aws_service", "allow_http"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Address and credentials of the cluster."""

    url: str  # ``https://host:port``, with a path if it is behind a proxy; without user and password
    user: str | None = None
    password: str | None = None
    api_key: str | None = None  # the ready value of an ``Authorization: ApiKey`` header
    authority: str | None = None  # path or PEM text of a private certificate authority
    aws_region: str | None = None  # of signed requests (SigV4); None: they are not signed
    aws_service: str = "es"  # or ``aoss`` for a serverless collection


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSearchSettings(Document):
    """The keys of the sink, as in docs/pipeline_keys.md."""

    access: Access
    index: str  # the name that readers search: an alias that the sink makes
    deletes: Literal["soft", "hard"] = "soft"
    purge_after: Annotated[float | None, BeforeValidator(lambda age: _age(age))] = None
    duplicates: Duplicates = "fail"
    dead_letters: DeadLetterSettings | None = None  # None: a document refused for good fails the batch
    bulk_bytes: SizeBytes = _BULK_BYTES
    shards: int | None = None
    replicas: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], connection: Mapping[str, Any]) -> "OpenSearchSettings":
        """Check the keys; arguments as in `open_sink`."""
        name = options.get("index")
        if not isinstance(name, str) or not _INDEX_NAME.fullmatch(name):
            raise TerminalError(
                f"sink.index is {name!r}, which is no name of an index; write up to 200 lower-case letters, digits, ., "
                "- and _, beginning with a letter or a digit",
                key="sink.index",
            )
        own = {key: value for key, value in options.items() if key != "url"}
        own["access"] = _access(options, connection)
        return checked_options(cls, own, sink_type="opensearch")


def _age(written: str | float | None) -> float | None:
    seconds = None if written is None else parse_seconds(written)
    if seconds is not None and seconds < _LEAST_AGE_SECONDS:
        raise ValueError(f"{written!r} is less than an hour; a number without a unit means seconds, write days as 30d")
    return seconds


def _access(options: Mapping[str, Any], connection: Mapping[str, Any]) -> Access:
    extra = dict(connection.get("extra") or {})
    hide({"password": connection.get("password"), **extra}, only_secrets=True)
    if unknown := sorted(extra.keys() - _EXTRA_KEYS):
        raise TerminalError(
            f"the extra of the connection of sink.conn_id has the key {unknown[0]!r}, which the opensearch sink does "
            f"not know; expected {', '.join(sorted(_EXTRA_KEYS))}",
            key=f"sink.{unknown[0]}",
        )
    url = options.get("url") or _connection_url(connection, is_encrypted=is_on(extra.get("use_ssl"), otherwise=True))
    if not is_address(url, "http", "https"):
        key = "sink.url" if options.get("url") else "sink.conn_id"
        raise TerminalError(
            f"the address of {key} is not the URL of a search cluster: write scheme, host and port alone, as in "
            "https://search.example:9200, and a user or a password into the fields of an Airflow connection", key=key,
        )  # fmt: skip
    is_secret = any(
        (connection.get("login"), connection.get("password"), extra.get("api_key"), extra.get("aws_region"))
    )
    if url.startswith("http:") and is_secret and not is_on(extra.get("allow_http"), otherwise=False):
        raise TerminalError(
            f"the search cluster {url} is not encrypted, so credentials and rows would cross the network readable: "
            "use https://, or set allow_http to true in the extra of the connection of sink.conn_id",
            key="sink.url",
        )
    return Access(
        url=url.rstrip("/"),
        user=connection.get("login") or None,
        password=connection.get("password") or None,
        api_key=extra.get("api_key"),
        authority=extra.get("ca_certs"),
        aws_region=extra.get("aws_region"),
        aws_service=extra.get("aws_service", "es"),
    )


def _connection_url(connection: Mapping[str, object], *, is_encrypted: bool) -> str:
    if not connection.get("host"):
        raise TerminalError(
            "sink names no search cluster; write `url`, or `conn_id` of an Airflow connection with a host", key="sink"
        )
    host = str(connection["host"])
    url = host if "://" in host else f"{'https' if is_encrypted else 'http'}://{host}"
    server, slash, path = url.partition("://")[2].partition("/")
    if not connection.get("port") or ":" in server.rpartition("]")[2]:
        return url
    return f"{url.partition('://')[0]}://{server}:{connection['port']}{slash}{path}"
