"""The keys of a Kafka sink, its clients, and their errors as ours."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from icefloe.documents import Document
from icefloe.errors import IcefloeError, TerminalError, TransientError, one_line
from icefloe.patience import patience_seconds
from icefloe.pipeline.url import is_address
from icefloe.redaction.hidden import hide, redacted_foreign
from icefloe.sinks.kafka.schemas import REGISTRY
from icefloe.sinks.key_changes import Duplicates
from icefloe.sinks.sink import SizeBytes, checked_options


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions(Document):
    """The keys besides ``type`` and ``conn_id``, as in docs/pipeline_keys.md."""

    topic: str  # its placeholders are replaced already
    state_topic: str = ""  # the compacted topic that says what is delivered; default: ``<topic>.icefloe``
    bootstrap_servers: str | None = None  # None: the connection has them
    settings: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    envelope: Literal["debezium", "plain"] = "debezium"
    format: Literal["json", "avro"] = "json"
    schema_registry: Mapping[str, str] | None = None  # its ``url``, which is ``mock://NAME`` in tests
    duplicates: Duplicates = "fail"
    tombstones: bool = True
    partitions: int | None = None  # of a new topic; None: the broker's default
    replication_factor: int | None = None  # of new topics; None: the broker's default
    topic_settings: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    transaction_rows: int = 50_000
    transaction_bytes: SizeBytes = 32 * 2**20
    transaction_seconds: int = 60

    @classmethod
    def of(cls, written: Mapping[str, object]) -> Self:
        """The options of a mapping."""
        return checked_options(cls, written, sink_type="kafka")

    def __post_init__(self) -> None:
        """Refuses keys that do not fit together."""
        if self.topic == self.tokens:
            raise TerminalError(
                f"sink.topic and sink.state_topic are both {self.topic}: give each a name of its own", key="sink.topic"
            )
        if (self.format == "avro") != (self.schema_registry is not None):
            raise TerminalError(
                f"sink.format is {self.format}, which does not fit sink.schema_registry: give both format: avro and "
                "schema_registry, or neither",
                key="sink.schema_registry",
            )

    @property
    def tokens(self) -> str:
        """The name of the state topic."""
        return self.state_topic or f"{self.topic}.icefloe"


_FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.UNKNOWN_PRODUCER_ID,
     # Sending after a fatal error says no more than this, and for a producer of transactions it was a fence.
     KafkaError._FATAL}
)  # fmt: skip
_LOGIN: Final = frozenset(
    {KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION, KafkaError.UNSUPPORTED_SASL_MECHANISM}
)
_PASSING: Final = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE, KafkaError._SSL,
     KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._STATE, KafkaError._PURGE_QUEUE,
     KafkaError._PURGE_INFLIGHT, KafkaError._WAIT_COORD, KafkaError._INCONSISTENT, KafkaError.UNKNOWN,
     # While a partition or a coordinator moves, or right after a topic was made. The client calls only those retriable
     # that it would retry itself, which are none of its administrative requests.
     KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.FENCED_LEADER_EPOCH,
     KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
     KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR, KafkaError.NOT_CONTROLLER,
     KafkaError.NETWORK_EXCEPTION, KafkaError.REQUEST_TIMED_OUT, KafkaError.KAFKA_STORAGE_ERROR}
)  # fmt: skip
NO_TOPIC: Final = "it was deleted with the changes in it; make the pipeline begin again with icefloe reset"
_WAYS_OUT: Final[Mapping[int, str]] = {
    **dict.fromkeys(_LOGIN, "correct user, password, sasl.mechanism and security.protocol in the connection of "
                    "sink.conn_id"),
    KafkaError.TOPIC_EXCEPTION: "correct sink.topic or sink.state_topic: up to 249 letters, digits, dots, _ and -",
    KafkaError.INVALID_CONFIG: "correct sink.topic_settings, or make the topic yourself",
    KafkaError.INVALID_REPLICATION_FACTOR: "correct sink.replication_factor, or make the topic yourself",
    KafkaError.INVALID_PARTITIONS: "correct sink.partitions, or make the topic yourself",
    KafkaError.POLICY_VIOLATION: "correct sink.partitions, sink.replication_factor and sink.topic_settings, or make "
    "the topic yourself",
    KafkaError.INVALID_RECORD: "a compacted topic takes no message without a key, such as the one that begins a new "
    "load; deliver to another sink.topic, or make its cleanup.policy delete",
    **dict.fromkeys((KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION),
                    NO_TOPIC),
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "make sink.transaction_seconds smaller, or raise "
    "transaction.max.timeout.ms of the brokers",
}  # fmt: skip
"""The ways out of answers that a retry would get again."""
Client = TypeVar("Client")
_logger = logging.getLogger(__name__)
_OURS: Final = frozenset(
    {"transactional.id", "enable.idempotence", "acks", "request.required.acks", "transaction.timeout.ms",
     "isolation.level", "partitioner", "partitioner_cb", "group.id", "group.instance.id", "enable.auto.commit",
     "auto.offset.reset", "enable.partition.eof", "error_cb", "logger", "stats_cb", "oauth_cb", "on_delivery",
     "delivery.report.only.error", "max.in.flight", "max.in.flight.requests.per.connection", "enable.gapless.guarantee"}
)  # fmt: skip
_WAITED: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT})
_LEAST_BYTES: Final = 1_000
"""Of the largest message that the client lets itself be set to."""
_REGISTRY_TRIES: Final = 4
"""The registry's client sends a request so many times."""


class FencedError(Exception):
    """Another producer of the same transactional id began; what this one did not commit is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRequest:
    """A request to the cluster, as errors name it."""

    doing: str  # completes "could not ..."
    topic: str
    right: str
    transactional_ids: str = ""  # their prefix; empty: none


@contextmanager
def refusals_of(
    request: KafkaRequest, *, connection_error: Callable[[], KafkaError | None] = lambda: None
) -> Iterator[None]:
    """Raises the client's errors as ours; FencedError: another producer has the transactional id.

    A failed login or connection may be no more than a time limit; then ``connection_error`` says more.
    """
    try:
        yield
    except (TimeoutError, KafkaException, KafkaError) as cause:
        # The client raises a fatal error bare if another thread of it noticed the fence.
        found = KafkaError(KafkaError._TIMED_OUT) if isinstance(cause, TimeoutError) else cause
        error = found.args[0] if isinstance(found, KafkaException) else found
        said = connection_error() if error.code() in _WAITED else None
        raise error_of(said or error, request) from cause


def error_of(error: KafkaError, request: KafkaRequest) -> IcefloeError | FencedError:
    """Our error for one of the client."""
    code, name, said = error.code(), error.name(), one_line(Exception(error.str()))
    topic, doing = request.topic, request.doing
    if code in _FENCED:
        return FencedError(said)
    rights = {
        KafkaError.TOPIC_AUTHORIZATION_FAILED: f"{request.right} on topic {topic}",
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Write on the transactional ids that begin with "
        f"{request.transactional_ids}",
        # Brokers before 3.0 ask for it; newer ones take the right to write to any topic.
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: "IdempotentWrite on the cluster",
    }
    if code in rights:
        return TerminalError(
            f"Kafka does not allow this user to {doing} for topic {topic} ({name}): grant it {rights[code]}; "
            "docs/sinks/kafka.md lists all rights"
        )
    if code not in _WAYS_OUT and (error.retriable() or code in _PASSING):
        return TransientError(
            f"Kafka could not {doing} for topic {topic} ({name}: {said}): see that its brokers run, and that "
            "bootstrap.servers and security.protocol are theirs, then run again"
        )
    way_out = _WAYS_OUT.get(code, "correct the cause, then run again")
    return TerminalError(f"Kafka refused to {doing} for topic {topic} ({name}: {said}): {way_out}")


class _ClientLog:
    """librdkafka's lines, none above INFO: a fenced producer is critical there, an answer here."""

    def log(self, level: int, text: str, *values: object) -> None:
        _logger.log(min(level, logging.INFO), "%s", redacted_foreign(text % values))


@dataclass(kw_only=True)
class KafkaClients:
    """Makes clients, and keeps their errors since the last answer: waiting requests only time out."""

    configuration: Mapping[str, object] = field(repr=False)
    registry: Mapping[str, object] = field(repr=False)
    seconds: float
    _admin: AdminClient | None = None
    _errors: dict[int, KafkaError] = field(default_factory=dict)

    @classmethod
    def of(cls, options: KafkaOptions, connection: Mapping[str, Any]) -> Self:
        """The clients of a sink."""
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
                "connection of sink.conn_id",
                key="sink.bootstrap_servers",
            )
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
            registry = {"timeout": seconds / _REGISTRY_TRIES, **given, "url": options.schema_registry["url"]}
            hide(registry, only_secrets=True)
        return cls(configuration=configuration, registry=registry, seconds=seconds)

    @property
    def admin(self) -> AdminClient:
        """One client for questions about topics."""
        if self._admin is None:
            self._admin = self._made(AdminClient, {})
        return self._admin

    def close(self) -> None:
        """End the client for questions, which ends when nobody holds it."""
        self._admin = None

    def producer(self, transactional_id: str, *, timeout_seconds: int, most_bytes: int) -> Producer:
        """A producer of transactions that has not begun."""
        own = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_seconds * 1000,
            # The hash of Java's clients; without a key, any partition.
            "partitioner": "murmur2_random",
            "message.max.bytes": max(most_bytes, _LEAST_BYTES),
            "linger.ms": self.configuration.get("linger.ms", 5),
            # A topic that was deleted is an error. Brokers that make missing topics would make another one in silence.
            "allow.auto.create.topics": False,
        }
        return self._made(Producer, own)

    def consumer(self) -> Consumer:
        """A consumer of committed messages; the name of its group means nothing."""
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
        try:
            return kind({**self.configuration, **own, "error_cb": self._note}, logger=_ClientLog())
        except KafkaException as cause:
            if cause.args[0].code() != KafkaError._INVALID_ARG:
                raise
            raise TerminalError(
                f"a setting does not fit the Kafka client ({one_line(Exception(cause.args[0].str()))}): correct it in "
                "sink.settings, in sink.transaction_seconds (transaction.timeout.ms), or in the extra of the "
                "connection of sink.conn_id",
                key="sink.settings",
            ) from cause

    def connection_error(self, client: AdminClient | Producer) -> KafkaError | None:
        """The error of the connections since the last answer, reported only when asked."""
        # A login counts only if no connection failed in another way.
        client.poll(0)
        # That all brokers are down is no more than the end of what the errors before it say.
        told = [error for code, error in self._errors.items() if code != KafkaError._ALL_BROKERS_DOWN]
        others = [error for error in told if error.code() not in _LOGIN]
        return next(iter([*reversed(others), *reversed(told), *self._errors.values()]), None)

    @contextmanager
    def answering(self, client: AdminClient | Producer, request: KafkaRequest) -> Iterator[None]:
        """`refusals_of` a request that a client waits for; an answer makes errors of its connections forgotten."""
        with refusals_of(request, connection_error=partial(self.connection_error, client)):
            yield
        # Errors that are not reported yet are reported first.
        client.poll(0)
        self.answered()

    def answered(self) -> None:
        """Forget errors of connections."""
        self._errors.clear()

    def _note(self, error: KafkaError) -> None:
        # The last one of its kind, at the end.
        self._errors.pop(error.code(), None)
        self._errors[error.code()] = error
