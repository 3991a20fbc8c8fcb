"""The records of what is delivered, and their producer."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException

from icefloe.documents import LEFT_OUT_IF_EMPTY, LEFT_OUT_IF_NONE, Document, dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.kafka.kafka_clients import KafkaClients, KafkaOptions, KafkaRequest, refusals_of
from icefloe.sinks.kafka.topics import find_topic, offsets, read_to

CLAIM_KEY: Final = "claim"
BATCH_KEY: Final = "batch"
_PART: Final = "part"
SETTINGS: Final[Mapping[str, object]] = {
    "cleanup.policy": "compact",
    # The newest segment is never compacted, and each new sink reads all of it.
    "segment.bytes": 2**20,
    "min.cleanable.dirty.ratio": 0.1,
}
Headers: TypeAlias = list[tuple[str, bytes]]
_ABORT_SECONDS: Final = 5.0
_QUEUE_SECONDS: Final = 1.0
_SMALL_BYTES: Final = 1_000_000
_SHOWN_BYTES: Final = 200
_OVERHEAD_BYTES: Final = 256
"""More than a message's headers, and the head of a batch with one message, take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicClaim(Origin):
    """Whose topic it is; pipeline and table are for people."""

    version: Literal[1] = 1
    generation: int  # 1, and one more with each take-over; its batches are later


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement(Document):
    """The facts that decide on the partition of a key: while they stay, it stays."""

    topic_id: str  # a topic that is made again has another
    partitions: int
    identity: tuple[str, ...]
    # Types of the key's columns whose promotion would move keys, by column.
    key_types: Annotated[Mapping[str, str], LEFT_OUT_IF_EMPTY] = field(default_factory=dict)
    key_schema_id: Annotated[int | None, LEFT_OUT_IF_NONE] = None  # the registry's id in the bytes of keys

    def require(self, topic: str, **now: object) -> None:
        """Raise unless these facts are as they were."""
        for name, found in now.items():
            if found != (before := getattr(self, name)):
                raise TerminalError(
                    f"topic {topic} was made again, or its keys would move: its {_PLACED_BY[name]} is "
                    f"{found or 'missing'}, and was {before or 'missing'}; undo that, load the table again with "
                    "icefloe reset, or deliver to another sink.topic"
                )


_PLACED_BY: Final[Mapping[str, str]] = {
    "topic_id": "id",
    "partitions": "number of partitions",
    "identity": "key",
    "key_types": "type of a column of the key",
    "key_schema_id": "schema id of the key",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedBatch(Document):
    """The last batch that was begun."""

    version: Literal[1] = 1
    generation: int
    batch_number: int
    end: str  # as ``ProvenBatch.end``
    # Fencing: its parts may not begin yet, and neither truncation nor `starts` of its load is written.
    # Open: they may. Finished: all are delivered.
    state: Literal["fencing", "open", "finished"]
    placement: Placement
    starts: tuple[int, ...]  # offset of each partition at which the last load begins
    cut: Annotated[str, LEFT_OUT_IF_EMPTY] = ""  # as ``ProvenBatch.cut``

    @property
    def order(self) -> tuple[int, int]:
        """Greater for later batches, and for a later owner."""
        return self.generation, self.batch_number


@dataclass(frozen=True, slots=True, kw_only=True)
class PartProgress(Document):
    """The progress of the parts of a number."""

    version: Literal[1] = 1
    generation: int
    batch_number: int | None = None  # the last batch with delivered rows; None: none yet
    rows: int = 0
    events: int = 0  # sent for the rows, without tombstones


Record: TypeAlias = TopicClaim | StartedBatch | PartProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """All records, the last one of each key."""

    claim: TopicClaim | None = None
    batch: StartedBatch | None = None
    parts: Mapping[int, PartProgress] = field(default_factory=dict)

    def after(self, records: Mapping[str, bytes], *, topic: str) -> "TopicState":
        """The state after further records, by key."""
        kinds: dict[str, type[Any]] = {CLAIM_KEY: TopicClaim, BATCH_KEY: StartedBatch, _PART: PartProgress}
        parts, found = dict(self.parts), dict[str, Any]()
        for key, value in records.items():
            name, _, number = key.partition("/")
            if (kind := kinds.get(name)) is None:
                continue
            record = load_document(kind, value, what=f"record {key} of topic {topic}")
            if name == _PART:
                parts[int(number)] = record
            else:
                found[name] = record
        return replace(self, parts=parts, **found)


def part_key(number: int) -> str:
    """The key of a part's record."""
    return f"{_PART}/{number}"


def part_role(number: int) -> str:
    """The role of the producers of a part."""
    return f"part-{number}"


class StateTopic:
    """Reads the state; each look reads on from the last one."""

    def __init__(self, clients: KafkaClients, name: str) -> None:
        self.name = name
        self._clients = clients
        self._consumer: Consumer | None = None
        self._read = 0
        self._id = ""
        self._state = TopicState()

    def look(self) -> TopicState:
        """At least the state that was committed before this call; nothing without a topic."""
        # It waits for open transactions: readers of committed messages get no message after the first of one.
        topic = find_topic(self._clients, self.name)
        if topic is None:
            return TopicState()
        if topic.partitions != 1:
            raise TerminalError(
                f"topic {topic.name} has {topic.partitions} partitions, and the state of a topic is in one: delete it, "
                "and icefloe makes it, or name another sink.state_topic",
                key="sink.state_topic",
            )
        if topic.id != self._id:
            self.close()
            self._id, self._read, self._state = topic.id, 0, TopicState()
        [end] = offsets(self._clients, topic)
        if self._read >= end:
            return self._state
        if self._consumer is None:
            self._consumer = self._clients.consumer()
        try:
            for position, messages in read_to(self._consumer, self._clients, topic, start=self._read, end=end):
                records = {key.decode(): value for message in messages if (key := message.key()) is not None
                           and (value := message.value()) is not None}  # fmt: skip
                self._state, self._read = self._state.after(records, topic=self.name), position
        finally:
            # Between looks it would ask the broker a hundred times a second whether there is more.
            self._consumer.unassign()
        # A broker ends connections that were idle for minutes, and the client calls that an error.
        self._clients.answered()
        return self._state

    def close(self) -> None:
        """Gives back the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


class TransactionProducer:
    """Sends messages in transactions; a context manager. Entering it fences every earlier producer of its id."""

    # Any error ends it: only a new producer knows how half-sent messages ended.

    def __init__(
        self, clients: KafkaClients, options: KafkaOptions, role: str, *, most_bytes: int = _SMALL_BYTES
    ) -> None:
        self._clients = clients
        self._options = options
        self._topic = options.topic
        self._sent_to: set[str] = set()
        self._is_open = False
        self._most_bytes = most_bytes
        with self._refusals("begin to send"):
            self._producer = clients.producer(
                f"{options.tokens}-{role}", timeout_seconds=options.transaction_seconds, most_bytes=most_bytes
            )

    def __enter__(self) -> Self:
        """Waits until the transactions of earlier producers are decided."""
        with self._clients.answering(self._producer, self._request("begin to send")):
            # Without a connection the client looks for the coordinator once, and again only half a second later.
            self._producer.list_topics(self._topic, self._clients.seconds)
            self._producer.init_transactions(self._clients.seconds)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Aborts an open transaction; without an answer of the brokers, they do so later."""
        if not self._is_open:
            self._producer.close()
            return
        with suppress(KafkaException, KafkaError):
            # A fenced producer may not abort, and another one has done so.
            self._producer.abort_transaction(_ABORT_SECONDS)
        # It is not closed: that aborts once more, and warns if it may not. Without messages nothing keeps it alive.
        with suppress(KafkaException, KafkaError):
            self._producer.purge()
            self._producer.poll(0)
        del self._producer

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Headers, partition: int = -1
    ) -> None:
        """Sends a message in the open transaction, or begins one. A failed delivery makes the commit fail."""
        self._sent_to.add(topic)
        size = len(key or b"") + len(value or b"")
        if size + _OVERHEAD_BYTES > self._most_bytes:
            shown = "missing" if key is None else key[:_SHOWN_BYTES].decode(errors="replace")
            raise TerminalError(
                f"a change of {size} bytes with the key {shown} is too large for topic {self._topic}, which takes "
                f"{self._most_bytes}; raise max.message.bytes of the topic and message.max.bytes of the brokers, or "
                "leave large columns out of columns"
            )
        if not self._is_open:
            with self._refusals("begin a transaction"):
                self._producer.begin_transaction()
            self._is_open = True
        while True:
            with self._refusals("send"):
                try:
                    self._producer.produce(topic, value, key, partition, headers=headers)
                except BufferError:
                    self._producer.poll(_QUEUE_SECONDS)
                except KafkaException as cause:
                    if cause.args[0].code() == KafkaError._STATE:
                        # The transaction failed meanwhile. Committing it says why: it cannot be committed any more.
                        self._producer.commit_transaction(self._clients.seconds)
                    raise
                else:
                    return

    def commit_record(self, key: str, document: Record, *, placed_by: Placement | None = None) -> None:
        """Commits what was sent with a record of the state; after an error a new producer knows if it did.

        With ``placed_by`` the topic must still have as many partitions.
        """
        # The record is the last message: readers of the state wait for whatever follows an open transaction's first.
        with self._refusals("send"):
            self._producer.flush(self._clients.seconds)
        self.send(self._options.tokens, key=key.encode(), value=dump_document(document), headers=[])
        if placed_by is not None:
            # Partitions are only ever added, so those of every message before were no more.
            placed_by.require(self._topic, partitions=self._partitions())
        with self._refusals("commit a transaction"):
            self._producer.commit_transaction(self._clients.seconds)
        self._is_open = False

    def _partitions(self) -> int:
        """Number of partitions of the topic that this producer uses from now on."""
        with refusals_of(KafkaRequest(doing="describe topics", topic=self._topic, right="Describe")):
            found = self._producer.list_topics(self._topic, self._clients.seconds).topics[self._topic]
            if not found.partitions:
                raise KafkaException(found.error)
            return len(found.partitions)

    def _refusals(self, doing: str) -> AbstractContextManager[None]:
        return refusals_of(self._request(doing))

    def _request(self, doing: str) -> KafkaRequest:
        topics = " and ".join(sorted(self._sent_to)) or self._topic
        return KafkaRequest(doing=doing, topic=topics, right="Write", transactional_ids=f"{self._options.tokens}-")
