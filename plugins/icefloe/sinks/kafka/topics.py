"""Topics: looked at, read, made if missing, never altered."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.kafka.kafka_clients import NO_TOPIC, KafkaClients, KafkaRequest, error_of, refusals_of

_SPARE_SECONDS: Final = 5
"""The client gives up by itself after the time that one request may take."""
_USUAL_BYTES: Final = 2**20
_END: Final = OffsetSpec.latest()
_MOST_AT_ONCE: Final = 10_000
_WAIT_SECONDS: Final = 0.2
_ABSENT: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID)
_DENIED: Final = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as the cluster has it."""

    name: str
    id: str  # the cluster's id; a topic that is made again has another
    partitions: int


def find_topic(clients: KafkaClients, name: str) -> Topic | None:
    """The topic; None if there is none."""
    request, names = KafkaRequest(doing="describe topics", topic=name, right="Describe"), TopicCollection([name])
    found = _answer(
        clients, request, lambda: clients.admin.describe_topics(names, request_timeout=clients.seconds)[name], _ABSENT
    )
    return None if found is None else Topic(name=name, id=str(found.topic_id), partitions=len(found.partitions))


def present_topic(clients: KafkaClients, name: str) -> Topic:
    """The topic, which must be there."""
    if (found := find_topic(clients, name)) is None:
        raise TerminalError(f"topic {name} is missing: {NO_TOPIC}")
    return found


def make_topic(
    clients: KafkaClients, name: str, *, partitions: int | None, replication_factor: int | None,
    settings: Mapping[str, object], only_try: bool = False,
) -> None:  # fmt: skip
    """Makes a topic unless it exists; None: the broker's default. With `only_try`, the broker only says if it would."""
    if find_topic(clients, name) is not None:
        return
    new = NewTopic(
        name, num_partitions=partitions or -1, replication_factor=replication_factor or -1,
        config={key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.items()},
    )  # fmt: skip
    _answer(
        clients,
        KafkaRequest(doing="make topics", topic=name, right="Create"),
        lambda: clients.admin.create_topics([new], request_timeout=clients.seconds, validate_only=only_try)[name],
        (KafkaError.TOPIC_ALREADY_EXISTS,),
    )
    give_up = monotonic() + clients.seconds
    while not only_try and find_topic(clients, name) is None:
        if monotonic() > give_up:
            raise TransientError(
                f"Kafka made topic {name}, but its brokers do not know it after {clients.seconds:.3g} seconds: see "
                "that they run, then run again"
            )
        sleep(0.05)


def most_bytes(clients: KafkaClients, name: str) -> int:
    """A topic's largest message (``max.message.bytes``), or a default if not allowed to ask."""
    return int(_setting(clients, name, "max.message.bytes", unknown=str(_USUAL_BYTES)))


def may_be_compacted(clients: KafkaClients, name: str) -> bool:
    """True if the broker compacts a topic, or this user may not ask."""
    return "compact" in _setting(clients, name, "cleanup.policy", unknown="compact")


def _setting(clients: KafkaClients, name: str, setting: str, *, unknown: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    found = _answer(
        clients,
        KafkaRequest(doing="describe settings", topic=name, right="DescribeConfigs"),
        lambda: clients.admin.describe_configs([resource], request_timeout=clients.seconds)[resource],
        _DENIED,
    )
    # Other brokers than Apache's do not list every setting.
    entry = (found or {}).get(setting)
    return unknown if entry is None or entry.value is None else str(entry.value)


def holds_messages(clients: KafkaClients, topic: Topic) -> bool:
    """True if a topic retains messages, or marks of transactions."""
    return offsets(clients, topic, OffsetSpec.earliest()) != offsets(clients, topic)


def offsets(clients: KafkaClients, topic: Topic, spec: OffsetSpec = _END) -> list[int]:
    """The end of each partition, committed or not, or its first offset; asked again while one has no leader."""
    request = KafkaRequest(doing="look up offsets", topic=topic.name, right="Describe")
    asked = {TopicPartition(topic.name, number): spec for number in range(topic.partitions)}
    give_up = monotonic() + clients.seconds
    while True:
        try:
            with clients.answering(clients.admin, request):
                # A consumer that reads committed messages only is told of the end of those, so another client asks.
                answers = clients.admin.list_offsets(
                    asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=clients.seconds
                )
                waited = clients.seconds + _SPARE_SECONDS
                found = {place.partition: each.result(timeout=waited).offset for place, each in answers.items()}
            return [found[number] for number in range(topic.partitions)]
        except TransientError:
            # Brokers that do not answer have taken all the time by then.
            if monotonic() > give_up:
                raise
        sleep(0.05)


def read_to(
    consumer: Consumer, clients: KafkaClients, topic: Topic, *, partition: int = 0, start: int, end: int
) -> Iterator[tuple[int, list[Message]]]:
    """The committed messages of a partition up to about an offset, with the position after each few."""
    # It waits for open transactions, as `StateTopic.look` does.
    request, position = KafkaRequest(doing="read", topic=topic.name, right="Read"), start
    with refusals_of(request):
        consumer.assign([TopicPartition(topic.name, partition, position)])
    give_up = monotonic() + clients.seconds
    while position < end:
        with refusals_of(request):
            arrived = arrivals(consumer)
        found = []
        for message in arrived:
            error = message.error()
            if error is None:
                position = max(position, message.offset() + 1)
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                # It counts the marks of transactions too, which are no messages.
                position = max(position, message.offset())
            elif error.fatal() or not error.retriable():
                raise error_of(error, request)
        if found:
            give_up = monotonic() + clients.seconds
        if found or position >= end:
            yield position, found
        elif monotonic() > give_up:
            raise TransientError(
                f"Kafka did not give topic {topic.name} to its end within {clients.seconds:.3g} seconds: another "
                "transaction on it is open; it ends by itself, so run again"
            )


def retained_messages(clients: KafkaClients, topic: Topic, starts: Sequence[int]) -> Iterator[list[Message]]:
    """The committed messages by partition, from ``starts`` to the present end."""
    consumer = clients.consumer()
    try:
        for partition, end in enumerate(offsets(clients, topic)):
            start = _start(starts, partition)
            for _, messages in read_to(consumer, clients, topic, partition=partition, start=start, end=end):
                if found := [message for message in messages if message.offset() < end]:
                    yield found
    finally:
        consumer.close()


def lacks_oldest(clients: KafkaClients, topic: Topic, starts: Sequence[int]) -> bool:
    """True if retention has deleted messages behind the start of a partition."""
    firsts = enumerate(offsets(clients, topic, OffsetSpec.earliest()))
    return any(first > _start(starts, partition) for partition, first in firsts)


def _start(starts: Sequence[int], partition: int) -> int:
    # Partitions that were added later have no start: all that they hold came after the load.
    return starts[partition] if partition < len(starts) else 0


def arrivals(consumer: Consumer) -> list[Message]:
    """The messages that are here, or the first one that comes; empty after a fifth of a second without any."""
    # The client's own call for many messages waits for all of them: a topic of two would take the whole time.
    first = consumer.poll(_WAIT_SECONDS)
    found = [] if first is None else [first, *consumer.consume(_MOST_AT_ONCE - 1, timeout=0)]
    # It also asks for its group's coordinator, which this user may not know. No offsets are kept there.
    return [
        each for each in found if not (each.error() and each.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED)
    ]


def _answer(
    clients: KafkaClients, request: KafkaRequest, ask: "Callable[[], Future[Any]]", none_if: Collection[int]
) -> Any:
    with clients.answering(clients.admin, request):
        try:
            return ask().result(timeout=clients.seconds + _SPARE_SECONDS)
        except KafkaException as cause:
            if cause.args[0].code() not in none_if:
                raise
    return None
