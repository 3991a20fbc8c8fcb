"""Topics of the cluster: looked at, and made if they are missing; none is ever altered."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from time import monotonic, sleep
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec

from icefloe.errors import TransientError
from icefloe.sinks.kafka.kafka_clients import KafkaClients, KafkaMovingError, KafkaRequest, error_of, refusals_of

Answer = TypeVar("Answer")

_LOOK_SECONDS: Final = 0.2
_SPARE_SECONDS: Final = 5
"""The client gives up by itself after the time that one request may take."""
_USUAL_BYTES: Final = 2**20
_ABSENT: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID})


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as the cluster has it.

    Attributes:
        id: the cluster's id of it; another one if the topic was deleted and made again.
    """

    name: str
    id: str
    partitions: int


def find_topic(clients: KafkaClients, name: str) -> Topic | None:
    """The topic; None if there is none."""
    request = KafkaRequest(doing="describe topics", topic=name, right="Describe")
    names = TopicCollection([name])
    try:
        found = _answer(
            clients, lambda: clients.admin.describe_topics(names, request_timeout=clients.seconds)[name],
            request,
        )  # fmt: skip
    except KafkaException as cause:
        if cause.args[0].code() in _ABSENT:
            return None
        raise error_of(cause.args[0], request) from cause
    return Topic(name=name, id=str(found.topic_id), partitions=len(found.partitions))


def cluster_id(clients: KafkaClients, name: str) -> str | None:
    """The id that the cluster gave itself, which stays when the addresses of its brokers change.

    Returns:
        None if the cluster tells nobody.
    """
    request = KafkaRequest(doing="describe the cluster", topic=name, right="Describe")
    with refusals_of(request):
        found = _answer(clients, lambda: clients.admin.describe_cluster(request_timeout=clients.seconds), request)
    return found.cluster_id or None


def make_topic(
    clients: KafkaClients, name: str, *, partitions: int | None, replication_factor: int | None,
    settings: Mapping[str, object], only_try: bool = False,
) -> None:  # fmt: skip
    """Makes a topic unless it is there.

    Args:
        clients: of the cluster.
        name: of the topic.
        partitions: how many; None: the broker's default.
        replication_factor: how many brokers hold it; None: the broker's default.
        settings: of the topic.
        only_try: True if the broker only says whether it would.
    """
    new = NewTopic(
        name, num_partitions=partitions or -1, replication_factor=replication_factor or -1,
        config={key: _text(value) for key, value in settings.items()},
    )  # fmt: skip
    request = KafkaRequest(doing="make topics", topic=name, right="Create")
    try:
        _answer(
            clients,
            lambda: clients.admin.create_topics([new], request_timeout=clients.seconds, validate_only=only_try)[name],
            request,
        )  # fmt: skip
    except KafkaException as cause:
        if cause.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise error_of(cause.args[0], request) from cause
    if not only_try:
        _await_topic(clients, name)


def most_bytes(clients: KafkaClients, name: str) -> int | None:
    """The largest message that a topic takes (``max.message.bytes``), or a common default if this user may not ask.

    None: there is no such topic.
    """
    found = _setting(clients, name, "max.message.bytes", unknown=str(_USUAL_BYTES))
    return None if found is None else int(found)


def may_be_compacted(clients: KafkaClients, name: str) -> bool:
    """True if the broker compacts a topic, or if this user may not ask."""
    return "compact" in (_setting(clients, name, "cleanup.policy", unknown="compact") or "")


def _setting(clients: KafkaClients, name: str, setting: str, *, unknown: str) -> str | None:
    """A setting of a topic, or ``unknown`` if this user may not ask; None: there is no such topic."""
    request = KafkaRequest(doing="describe settings", topic=name, right="DescribeConfigs")
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    try:
        found = _answer(
            clients, lambda: clients.admin.describe_configs([resource], request_timeout=clients.seconds)[resource],
            request,
        )  # fmt: skip
    except KafkaException as cause:
        if cause.args[0].code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
            return unknown
        if cause.args[0].code() in _ABSENT:
            return None
        raise error_of(cause.args[0], request) from cause
    value: str = found[setting].value
    return value


def end_offsets(clients: KafkaClients, topic: Topic) -> list[int]:
    """The offset after the last message of each partition, committed or not."""
    return _offsets(clients, topic, OffsetSpec.latest())


def first_offsets(clients: KafkaClients, topic: Topic) -> list[int]:
    """The offset of each partition before which its retention has deleted messages."""
    return _offsets(clients, topic, OffsetSpec.earliest())


def holds_messages(clients: KafkaClients, topic: Topic) -> bool:
    """True if a topic retains messages, or marks of transactions."""
    return first_offsets(clients, topic) != end_offsets(clients, topic)


def _offsets(clients: KafkaClients, topic: Topic, spec: OffsetSpec) -> list[int]:
    """Offsets of all partitions; asked again while a partition that was just made, or that moves, has no leader."""
    give_up = monotonic() + clients.seconds
    while True:
        try:
            return _offsets_now(clients, topic, spec)
        except KafkaMovingError:
            if monotonic() > give_up:
                raise
        sleep(0.05)


def _offsets_now(clients: KafkaClients, topic: Topic, spec: OffsetSpec) -> list[int]:
    asked = {TopicPartition(topic.name, number): spec for number in range(topic.partitions)}

    # A consumer that reads committed messages only is told of the end of those, so another client asks.
    def ask() -> "Mapping[TopicPartition, Future[Any]]":
        return clients.admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=clients.seconds
        )

    found = {}
    request = KafkaRequest(doing="look up offsets", topic=topic.name, right="Describe")
    with refusals_of(request):
        for place, answer in ask().items():
            offset = _answer(clients, partial(_same, answer), request).offset
            found[place.partition] = offset
    return [found[number] for number in range(topic.partitions)]


def _await_topic(clients: KafkaClients, name: str) -> None:
    """Waits until a topic that was made is known to the brokers."""
    give_up = monotonic() + clients.seconds
    while find_topic(clients, name) is None:
        if monotonic() > give_up:
            raise TransientError(
                f"Kafka made topic {name}, but its brokers do not know it after {clients.seconds:.3g} seconds: see "
                "that they run, then run again",
            )  # fmt: skip
        sleep(0.05)


def _answer(clients: KafkaClients, ask: "Callable[[], Future[Answer]]", request: KafkaRequest) -> Answer:
    """The answer of the admin client. Its own errors are only time limits: those of the connection say more."""
    answer, give_up = ask(), monotonic() + clients.seconds + _SPARE_SECONDS
    while True:
        try:
            found = answer.result(timeout=_LOOK_SECONDS)
        except TimeoutError as cause:
            # The client goes on to try a login that was refused.
            if clients.is_login_refused(clients.admin) or monotonic() > give_up:
                error = clients.connection_error(clients.admin)
                raise error_of(error or KafkaError(KafkaError._TIMED_OUT), request) from cause
        except KafkaException as cause:
            error = clients.connection_error(clients.admin) if cause.args[0].code() == KafkaError._TIMED_OUT else None
            if error is not None:
                raise error_of(error, request) from cause
            raise
        else:
            clients.answered(clients.admin)
            return found


def _same(answer: "Future[Answer]") -> "Future[Answer]":
    return answer


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
