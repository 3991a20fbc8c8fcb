"""Errors of the Kafka client as errors of ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from icefloe.errors import IcefloeError, TerminalError, TransientError, one_line

_FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.UNKNOWN_PRODUCER_ID,
     # Sending after a fatal error says no more than this, and for a producer of transactions it was a fence.
     KafkaError._FATAL}
)  # fmt: skip
_LOGIN: Final = frozenset(
    {KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION, KafkaError.UNSUPPORTED_SASL_MECHANISM}
)
_SILENT: Final = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE, KafkaError._SSL,
     KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._STATE, KafkaError._PURGE_QUEUE,
     KafkaError._PURGE_INFLIGHT, KafkaError._WAIT_COORD, KafkaError._INCONSISTENT, KafkaError.UNKNOWN}
)  # fmt: skip
_KEYS: Final = {
    KafkaError.INVALID_CONFIG: "sink.topic_settings",
    KafkaError.INVALID_REPLICATION_FACTOR: "sink.replication_factor",
    KafkaError.INVALID_PARTITIONS: "sink.partitions",
    KafkaError.POLICY_VIOLATION: "sink.partitions, sink.replication_factor and sink.topic_settings",
}
"""The keys that say how a topic is made, by the answer of a broker that does not take them."""
_MOVING: Final = frozenset(
    {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.FENCED_LEADER_EPOCH,
     KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
     KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR, KafkaError.NOT_CONTROLLER,
     KafkaError.NETWORK_EXCEPTION, KafkaError.REQUEST_TIMED_OUT, KafkaError.KAFKA_STORAGE_ERROR}
)  # fmt: skip
"""Answers while a partition or a coordinator moves, or right after a topic was made. The client calls only those
retriable that it would retry itself, which are none of its administrative requests."""


class FencedError(Exception):
    """Another producer of the same transactional id began; what this one had sent and not committed is gone."""


class KafkaAnswerError(TerminalError):
    """The cluster refused a request for good."""

    code: str
    topic: str


class KafkaSilentError(TransientError):
    """The cluster did not answer, or could not do what was asked at this time."""

    code: str
    topic: str


class KafkaMovingError(KafkaSilentError):
    """A partition or a coordinator moves, or was made a moment ago: the same question is answered soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRequest:
    """A request to the cluster, as errors name it.

    Attributes:
        doing: the thing that is done, as in "could not ...".
        topic: the topic in question; several are joined by "and".
        right: the right that it takes on the topic, in Kafka's words.
        transactional_ids: the prefix of the transactional ids that it uses; empty: none.
    """

    doing: str
    topic: str
    right: str
    transactional_ids: str = ""


@contextmanager
def refusals_of(request: KafkaRequest) -> Iterator[None]:
    """Raises errors of the client inside as errors of ours.

    Raises:
        FencedError: another producer has the transactional id.
        KafkaAnswerError: retrying cannot help.
        KafkaSilentError: it may.
    """
    try:
        yield
    except KafkaException as cause:
        raise error_of(cause.args[0], request) from cause
    except KafkaError as cause:
        # The client raises a fatal error bare if another thread of it noticed the fence.
        raise error_of(cause, request) from cause


def error_of(error: KafkaError, request: KafkaRequest) -> IcefloeError | FencedError:
    """The error of ours for one of the client."""
    code, name, said = error.code(), error.name(), one_line(Exception(error.str()))
    topic, doing = request.topic, request.doing
    if code in _FENCED:
        return FencedError(said)
    if (right := _missing_right(code, request)) is not None:
        return KafkaAnswerError(
            f"Kafka does not allow this user to {doing} for topic {topic} ({name}): grant it {right}; "
            "docs/sinks/kafka.md lists all rights", code=name, topic=topic,
        )  # fmt: skip
    if code in _LOGIN:
        return KafkaAnswerError(
            f"Kafka refused the login for topic {topic} ({name}: {said}): correct user, password, sasl.mechanism and "
            "security.protocol in the connection of sink.conn_id", code=name, topic=topic,
        )  # fmt: skip
    if code in _KEYS:
        return KafkaAnswerError(
            f"Kafka refused to {doing} for topic {topic} ({name}: {said}): correct {_KEYS[code]}, or make the topic "
            "yourself", code=name, topic=topic,
        )  # fmt: skip
    if code == KafkaError.INVALID_RECORD:
        return KafkaAnswerError(
            f"Kafka refused to {doing} for topic {topic} ({name}): a compacted topic takes no message without a key, "
            "such as the one that begins a new load; deliver to another sink.topic, or make its cleanup.policy delete",
            code=name, topic=topic,
        )  # fmt: skip
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION):
        return KafkaAnswerError(
            f"Kafka has no topic {topic} any more ({name}): it was deleted while the pipeline delivered to it; make "
            "the pipeline begin again with icefloe reset", code=name, topic=topic,
        )  # fmt: skip
    if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return KafkaAnswerError(
            f"Kafka allows no transaction as long as sink.transaction_seconds for topic {topic} ({name}): make it "
            "smaller, or raise transaction.max.timeout.ms of the brokers", code=name, topic=topic,
        )  # fmt: skip
    if code in _MOVING:
        return KafkaMovingError(
            f"Kafka could not {doing} for topic {topic} ({name}: {said}): a partition or its coordinator moves; run "
            "again", code=name, topic=topic,
        )  # fmt: skip
    if error.retriable() or code in _SILENT:
        return KafkaSilentError(
            f"Kafka could not {doing} for topic {topic} ({name}: {said}): see that its brokers run, and that "
            "bootstrap.servers and security.protocol are theirs, then run again", code=name, topic=topic,
        )  # fmt: skip
    return KafkaAnswerError(
        f"Kafka refused to {doing} for topic {topic} ({name}: {said}): correct the cause, then run again",
        code=name, topic=topic,
    )  # fmt: skip


def is_login(error: KafkaError | None) -> bool:
    """True for a login that the brokers refused."""
    return error is not None and error.code() in _LOGIN


def _missing_right(code: int, request: KafkaRequest) -> str | None:
    """The right that the user lacks and its resource; None if the cluster refused for another reason."""
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return f"{request.right} on topic {request.topic}"
    if code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return f"Write on the transactional ids that begin with {request.transactional_ids}"
    # Brokers before 3.0 ask for it; newer ones take the right to write to any topic.
    return "IdempotentWrite on the cluster" if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED else None
