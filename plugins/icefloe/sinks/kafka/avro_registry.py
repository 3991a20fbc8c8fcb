"""The schema registry of a topic: its client, made from checked settings, and its errors."""

import io
import json
from collections.abc import Callable, Mapping
from functools import partial
from struct import Struct
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from fastavro import parse_schema, schemaless_reader

from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.pipeline.url import is_address
from icefloe.sinks.kafka.avro_schemas import AvroSchema

Answer = TypeVar("Answer")

PREFIX: Final = Struct(">bI")
"""Confluent's wire format: a zero, then the id of the schema."""
REGISTRY: Final = "schema.registry."
"""Settings of the registry's client begin with it in the extra of a connection."""
_SCHEMES: Final = ("mock", "http", "https")
_PROXIES: Final = ("http", "https", "socks5", "socks5h")
_FIRST_SERVER_FAULT: Final = 500
_BUSY: Final = frozenset({408, 429})
_DENIED: Final = frozenset({401, 403})
_ELSEWHERE: Final = frozenset({301, 302, 303, 307, 308, 404, 405})
_FIRST_OWN_CODE: Final = 10_000
"""A registry's own codes have five digits, and those of any web server are an HTTP status."""
_NO_RIGHT: Final = 403


class SchemaRefusedError(TerminalError):
    """The registry refuses a schema, or does not know one."""

    topic: str


class RegistrySilentError(TransientError):
    """The registry did not answer."""

    topic: str


class AvroRegistry:
    """The schemas of one topic: subjects ``<topic>-key`` and ``<topic>-value``.

    Raises:
        TerminalError: a setting does not fit.
    """

    def __init__(self, topic: str, configuration: Mapping[str, Any]) -> None:
        self._topic = topic
        self._client = _client(configuration)
        self._parsed: dict[int, Any] = {}

    def check(self) -> None:
        """Ask for the subjects, or for one that may be missing. The right to look them up is not needed to deliver.

        Raises:
            SchemaRefusedError: the registry refuses the user.
            RegistrySilentError: no answer.
            TerminalError: the place is no schema registry.
        """
        if not isinstance(self._ask(self._subjects), list):
            raise self._no_registry("it answers in another form")

    def register(self, of: str, schema: AvroSchema) -> int:
        """The id of a schema.

        Args:
            of: ``key`` or ``value``.
            schema: in Avro.

        Raises:
            SchemaRefusedError: it is not compatible with the one before.
            RegistrySilentError: no answer.
            TerminalError: the place is no schema registry.
        """
        text = Schema(json.dumps(schema), "AVRO")
        number = self._ask(lambda: self._client.register_schema(f"{self._topic}-{of}", text))
        if not isinstance(number, int):
            raise self._no_registry("it gives a schema no id")
        return number

    def read(self, message: bytes) -> Any:
        """The value of a message, as fastavro has it."""
        _, number = PREFIX.unpack_from(message)
        if number not in self._parsed:
            text = self._ask(lambda: self._client.get_schema(number)).schema_str
            if not text:
                raise self._no_registry(f"it has no text for schema {number}")
            self._parsed[number] = parse_schema(json.loads(text))
        return schemaless_reader(io.BytesIO(message[PREFIX.size :]), self._parsed[number], None)

    def _subjects(self) -> object:
        # Each make of registry has its own answer for a missing subject, so a list of all is asked for first. A gateway
        # may serve the subjects of the topic alone.
        for look in (self._client.get_subjects, partial(self._client.get_versions, f"{self._topic}-value")):
            try:
                return look()
            except SchemaRegistryError as answer:
                if answer.http_status_code == _NO_RIGHT:
                    return []
                if answer.http_status_code not in _ELSEWHERE:
                    raise
                if (answer.error_code or 0) >= _FIRST_OWN_CODE:
                    return []
                elsewhere = answer
        raise elsewhere

    def _ask(self, call: Callable[[], Answer]) -> Answer:
        try:
            return call()
        except SchemaRegistryError as cause:
            raise self._error_of(cause) from cause
        except Exception as cause:
            # The client raises the errors of whatever HTTP library it has.
            raise self._silent(cause) from cause

    def _error_of(self, cause: SchemaRegistryError) -> TerminalError | TransientError:
        status, said = cause.http_status_code, one_line(cause)
        if status in _BUSY or status >= _FIRST_SERVER_FAULT:
            return self._silent(cause)
        if status in _DENIED:
            return SchemaRefusedError(
                f"the schema registry refuses the user for the schemas of topic {self._topic} ({said}): correct "
                "schema.registry.basic.auth.user.info in the extra of the connection of sink.conn_id, or give the user "
                "the right to write these subjects",
                topic=self._topic,
            )
        if cause.error_code is None or (status in _ELSEWHERE and cause.error_code < _FIRST_OWN_CODE):
            return self._no_registry(said)
        return SchemaRefusedError(
            f"the schema registry refuses the schemas of topic {self._topic} ({said}): set the "
            "compatibility of its subjects to what the table's changes need, or deliver to another sink.topic",
            topic=self._topic,
        )

    def _no_registry(self, fault: str) -> TerminalError:
        return TerminalError(
            f"sink.schema_registry.url leads to no schema registry ({fault}): correct it, with the path at which a "
            "proxy serves the registry",
            key="sink.schema_registry.url",
        )

    def _silent(self, cause: Exception) -> RegistrySilentError:
        return RegistrySilentError(
            f"the schema registry of topic {self._topic} did not answer ({one_line(cause)}): see that it "
            "runs and that sink.schema_registry.url names it, then run again", topic=self._topic,
        )  # fmt: skip


def _client(configuration: Mapping[str, Any]) -> SchemaRegistryClient:
    """The registry's client. No sentence quotes an address or a value, which may hold a password."""
    if not is_address(str(configuration["url"]), *_SCHEMES, is_list=True):
        raise TerminalError(
            "sink.schema_registry.url is not the URL of a schema registry: write one such as "
            "https://registry.example:8081",
            key="sink.schema_registry.url",
        )
    user, proxy = configuration.get("basic.auth.user.info", ":"), configuration.get("proxy")
    if not isinstance(user, str) or ":" not in user:
        raise _misfit("basic.auth.user.info", "is not of the form USER:PASSWORD")
    if proxy is not None and not _is_proxy(proxy):
        raise _misfit("proxy", "is not the URL of a proxy")
    if not isinstance(configuration.get("timeout", 0), int | float):
        raise _misfit("timeout", "is not a number of seconds")
    try:
        return SchemaRegistryClient.new_client(dict(configuration))
    except OSError as cause:
        # The error of a file that is missing or holds no certificate does not name the file.
        files = [name for name in configuration if name.startswith("ssl.") and name.endswith(".location")]
        if not files:
            raise _misfit(
                "ssl.ca.location", f"is missing, and SSL_CERT_FILE cannot be read ({one_line(cause)})"
            ) from cause
        raise _misfit(f" or {REGISTRY}".join(files), f"cannot be read on this machine ({one_line(cause)})") from cause
    except Exception as cause:
        raise _misfit("*", f"does not fit the registry's client ({one_line(cause)})") from cause


def _misfit(name: str, fault: str) -> TerminalError:
    sentence = f"schema.registry.{name} in the extra of the connection of sink.conn_id {fault}: correct it"
    return TerminalError(sentence, key="sink.conn_id")


def _is_proxy(url: object) -> bool:
    """True if the client takes an address, which may hold a password."""
    try:
        parsed = urlsplit(str(url))
        return parsed.scheme in _PROXIES and bool(parsed.hostname) and (parsed.port or 1) > 0
    except ValueError:
        return False
