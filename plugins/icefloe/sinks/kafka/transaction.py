"""A producer of transactions under one transactional id."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Final, Self, TypeAlias

from confluent_kafka import KafkaError, KafkaException

from icefloe.errors import TerminalError
from icefloe.sinks.kafka.kafka_clients import KafkaClients
from icefloe.sinks.kafka.kafka_options import KafkaOptions
from icefloe.sinks.kafka.kafka_refusals import KafkaRequest, error_of, refusals_of

Headers: TypeAlias = list[tuple[str, bytes]]
_ABORT_SECONDS: Final = 5.0
_QUEUE_SECONDS: Final = 1.0
_WAITED: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT})
_SMALL_BYTES: Final = 1_000_000
_SHOWN_BYTES: Final = 200
_OVERHEAD_BYTES: Final = 256
"""More than a message's headers, and the head of a batch with one message, take."""


class TooLargeError(TerminalError):
    """A change is larger than the largest message that the topic takes."""

    topic: str
    size: int


class TransactionProducer:
    """Sends messages in transactions; a context manager. Entering it fences every earlier producer of its id.

    Any error inside ends it: a message may be half way then, and only a new producer knows how it ended.

    Args:
        clients: of the cluster.
        options: of the sink.
        role: its transactional id is ``<state topic>-<role>``.
        most_bytes: of one message.
    """

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
        with self._refusals("begin to send"):
            try:
                # Without a connection the client looks for the coordinator once, and again only half a second later.
                self._producer.list_topics(self._topic, self._clients.seconds)
                self._producer.init_transactions(self._clients.seconds)
                self._clients.answered(self._producer)
            except KafkaException as cause:
                # A login that fails is only a time limit here.
                error = self._clients.connection_error(self._producer) if cause.args[0].code() in _WAITED else None
                if error is not None:
                    raise error_of(error, self._request("begin to send")) from cause
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Aborts an open transaction, if the brokers answer: otherwise readers wait until they abort it themselves."""
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

    def begin(self) -> None:
        """Begins a transaction."""
        with self._refusals("begin a transaction"):
            self._producer.begin_transaction()
        self._is_open = True

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Headers, partition: int = -1
    ) -> None:
        """Sends a message as part of the open transaction.

        There is no report of its delivery: one that fails makes `commit` fail.

        Raises:
            FencedError: another producer of this id began.
            TooLargeError: the topic takes no message of this size.
        """
        self._sent_to.add(topic)
        if (refused := self.refusal_of(key, value)) is not None:
            raise refused
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

    def refusal_of(self, key: bytes | None, value: bytes | None) -> TooLargeError | None:
        """The error that sending a message to the topic would raise for its size; None: it is not too large."""
        size = len(key or b"") + len(value or b"")
        if size + _OVERHEAD_BYTES <= self._most_bytes:
            return None
        shown = "missing" if key is None else key[:_SHOWN_BYTES].decode(errors="replace")
        return TooLargeError(
            f"a change of {size} bytes with the key {shown} is too large for topic {self._topic}, which takes "
            f"{self._most_bytes}; raise max.message.bytes of the topic and message.max.bytes of the brokers, or leave "
            "large columns out of columns", topic=self._topic, size=size,
        )  # fmt: skip

    def flush(self) -> None:
        """Waits until the brokers have all messages of the transaction."""
        with self._refusals("send"):
            self._producer.flush(self._clients.seconds)

    def commit(self) -> None:
        """Commits the open transaction: its messages are visible, or an error is raised and a new producer knows."""
        with self._refusals("commit a transaction"):
            self._producer.commit_transaction(self._clients.seconds)
        self._is_open = False

    def partitions_of(self, topic: str) -> int:
        """Number of partitions of a topic, as this producer spreads messages over them from now on."""
        with refusals_of(KafkaRequest(doing="describe topics", topic=topic, right="Describe")):
            return len(self._producer.list_topics(topic, self._clients.seconds).topics[topic].partitions)

    def commit_records(self, topic: str, records: Iterable[tuple[str, bytes]]) -> None:
        """One transaction of these records of a topic."""
        self.begin()
        for key, value in records:
            self.send(topic, key=key.encode(), value=value, headers=[])
        self.commit()

    def _refusals(self, doing: str) -> AbstractContextManager[None]:
        return refusals_of(self._request(doing))

    def _request(self, doing: str) -> KafkaRequest:
        topics = " and ".join(sorted(self._sent_to)) or self._topic
        return KafkaRequest(doing=doing, topic=topics, right="Write", transactional_ids=f"{self._options.tokens}-")
