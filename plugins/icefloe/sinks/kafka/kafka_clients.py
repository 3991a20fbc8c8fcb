"""Clients of a Kafka cluster, made from the options and the Airflow connection."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from icefloe.errors import TerminalError, one_line
from icefloe.patience import patience_seconds
from icefloe.pipeline.url import is_address
from icefloe.redaction.hidden import hide, redacted_foreign
from icefloe.sinks.kafka.avro_registry import REGISTRY
from icefloe.sinks.kafka.kafka_options import KafkaOptions
from icefloe.sinks.kafka.kafka_refusals import is_login

Client = TypeVar("Client")

_logger = logging.getLogger(__name__)

_OURS: Final = frozenset(
    {"transactional.id", "enable.idempotence", "acks", "request.required.acks", "transaction.timeout.ms",
     "isolation.level", "partitioner", "partitioner_cb", "group.id", "group.instance.id", "enable.auto.commit",
     "auto.offset.reset", "enable.partition.eof", "error_cb", "logger", "stats_cb", "oauth_cb", "on_delivery",
     "delivery.report.only.error", "max.in.flight", "max.in.flight.requests.per.connection", "enable.gapless.guarantee"}
)  # fmt: skip
_ANY_LOGIN: Final = {
    "security.protocol": "plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "any", "sasl.password": "any"
}  # fmt: skip
"""With which each setting that fits is taken."""
_LEAST_BYTES: Final = 1_000
"""Of the largest message that the client lets itself be set to."""
_REGISTRY_TRIES: Final = 4
"""The registry's client sends a request so many times."""
_BELIEVED_SECONDS: Final = 2.0
"""A login that is refused for so long will be refused."""


class _ClientLog:
    """Takes the lines of librdkafka, none above INFO: a fenced producer is critical for it, and an answer for us."""

    def log(self, level: int, text: str, *values: object) -> None:
        """One line, with its level as `logging` has it."""
        _logger.log(min(level, logging.INFO), "%s", redacted_foreign(text % values))


@dataclass(kw_only=True)
class KafkaClients:
    """Makes clients. Their errors since the last answer are kept: requests that wait for a connection only time out.

    Attributes:
        configuration: settings of librdkafka that all clients share.
        registry: settings of the schema registry's client.
        places: keys of the pipeline file by the setting that they give; others are in the connection.
        seconds: time that one request may take.
    """

    configuration: Mapping[str, object] = field(repr=False)
    registry: Mapping[str, object] = field(repr=False)
    places: Mapping[str, str] = field(default_factory=dict)
    seconds: float
    _admin: AdminClient | None = None
    _errors: dict[int, KafkaError] = field(default_factory=dict)
    _first_error_at: float = 0.0

    @classmethod
    def of(cls, options: KafkaOptions, connection: Mapping[str, Any]) -> Self:
        """The clients of a sink.

        Raises:
            TerminalError: no brokers are named, or a setting is ours.
        """
        for key in options.settings:
            if key in _OURS:
                raise TerminalError(
                    f"sink.settings has {key}, which icefloe sets itself: take it out", key=f"sink.settings.{key}"
                )
        extra = dict(connection.get("extra") or {})
        hide(connection, only_secrets=True)
        hide(extra, only_secrets=True)
        registry = {key.removeprefix(REGISTRY): value for key, value in extra.items() if key.startswith(REGISTRY)}
        # A connection is shared with other programs: what they need of acks or groups means nothing here.
        shared = {key: value for key, value in extra.items() if key not in _OURS and not key.startswith(REGISTRY)}
        configuration = shared | dict(options.settings)
        if options.bootstrap_servers is not None:
            configuration["bootstrap.servers"] = options.bootstrap_servers
        if not configuration.get("bootstrap.servers"):
            raise TerminalError(
                "sink names no brokers: set sink.bootstrap_servers, or put bootstrap.servers into the extra of the "
                "connection of sink.conn_id", key="sink.bootstrap_servers",
            )  # fmt: skip
        if not is_address(str(configuration["bootstrap.servers"]), is_list=True):
            key = "sink.conn_id" if options.bootstrap_servers is None else "sink.bootstrap_servers"
            raise TerminalError(
                f"the brokers of {key} are not addresses such as broker-1:9092,broker-2:9092: write hosts and ports "
                "alone, and a user or a password into sasl.username and sasl.password of the connection's extra",
                key=key,
            )
        seconds = patience_seconds(os.environ)
        if options.schema_registry is not None:
            # By itself the registry's client waits for an answer without end.
            given = {name: value for name, value in registry.items() if value is not None}
            registry = {"timeout": seconds / _REGISTRY_TRIES, **given, "url": options.schema_registry.url}
            hide(registry, only_secrets=True)
        places = {key: f"sink.settings.{key}" for key in options.settings}
        places["transaction.timeout.ms"] = "sink.transaction_seconds"
        return cls(configuration=configuration, registry=registry, places=places, seconds=seconds)

    @property
    def admin(self) -> AdminClient:
        """One client for questions about topics."""
        if self._admin is None:
            self._admin = self._made(AdminClient, {})
        return self._admin

    def close(self) -> None:
        """End the client for questions, which has no end of its own but that nobody holds it."""
        self._admin = None

    def producer(self, transactional_id: str, *, timeout_seconds: int, most_bytes: int) -> Producer:
        """A producer of transactions that has not begun."""
        own = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_seconds * 1000,
            # The hash of Java's clients; without a key, any partition.
            "partitioner": "murmur2_random",
            "message.max.bytes": max(most_bytes, _LEAST_BYTES),
            "linger.ms": 5,
            # A topic that was deleted is an error. Brokers that make missing topics would make another one in silence.
            "allow.auto.create.topics": False,
        }
        own = {key: value for key, value in own.items() if key != "linger.ms" or key not in self.configuration}
        return self._made(Producer, own)

    def consumer(self) -> Consumer:
        """A consumer that sees committed messages only. It belongs to no group: the name is only demanded."""
        own = {
            "group.id": "icefloe",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            # A reader waits for the end of other transactions, which is a matter of milliseconds.
            "fetch.wait.max.ms": 10,
        }
        return self._made(Consumer, own)

    def _made(self, kind: Callable[..., Client], own: Mapping[str, object]) -> Client:
        """A client of these settings; TerminalError if one does not fit, or names a file that cannot be read."""
        configuration = {**self.configuration, **own}
        try:
            return kind({**configuration, "error_cb": self._note}, logger=_ClientLog())
        except KafkaException as cause:
            if cause.args[0].code() != KafkaError._INVALID_ARG:
                raise
            raise self._misfit(configuration, one_line(Exception(cause.args[0].str()))) from cause

    def _misfit(self, configuration: Mapping[str, object], said: str) -> TerminalError:
        """The error of settings that the client refuses. It may know a setting by another name, and names no file."""
        key = next((key for key, value in configuration.items() if _is_refused({**_ANY_LOGIN, key: value})), None)
        if key is None:
            files = (key for key in configuration if key.endswith(".location"))
            key = next((key for key in files if not os.access(str(configuration[key]), os.R_OK)), None)
            said = said if key is None else f"it is {configuration[key]}, which cannot be read on this machine"
        place = f"{key or 'sink.settings or a setting'} in the extra of the connection of sink.conn_id"
        place = self.places.get(key or "", place)
        return TerminalError(
            f"{place} does not fit the Kafka client ({said}): correct it",
            key=self.places.get(key or "", "sink.conn_id"),
        )

    def connection_error(self, client: AdminClient | Producer) -> KafkaError | None:
        """The error of the connections since the last answer, which a client only tells when it is asked.

        None: there was none. A login counts only if no connection failed in another way.
        """
        client.poll(0)
        # That all brokers are down is no more than the end of what the errors before it say.
        told = [error for code, error in self._errors.items() if code != KafkaError._ALL_BROKERS_DOWN]
        others = [error for error in told if not is_login(error)]
        return next(iter([*reversed(others), *reversed(told), *self._errors.values()]), None)

    def is_login_refused(self, client: AdminClient | Producer) -> bool:
        """True if all brokers refuse the login, and have for a while: one that restarts may do so for a moment."""
        error = self.connection_error(client)
        are_all_down = KafkaError._ALL_BROKERS_DOWN in self._errors
        return is_login(error) and are_all_down and monotonic() - self._first_error_at >= _BELIEVED_SECONDS

    def answered(self, *asked: AdminClient | Producer) -> None:
        """Forget the errors of connections, and those that the asked clients have yet to tell: the cluster answered."""
        for client in asked:
            client.poll(0)
        self._errors.clear()

    def _note(self, error: KafkaError) -> None:
        if not self._errors:
            self._first_error_at = monotonic()
        # The last one of its kind, at the end.
        self._errors.pop(error.code(), None)
        self._errors[error.code()] = error


def _is_refused(settings: Mapping[str, object]) -> bool:
    try:
        Producer(dict(settings), logger=_ClientLog())
    except KafkaException:
        return True
    return False
