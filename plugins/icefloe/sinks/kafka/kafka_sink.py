"""The kafka sink."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from random import SystemRandom
from time import monotonic, sleep
from typing import Any, ClassVar, Final, TypeVar

import pyarrow as pa

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.dead_letters import DeadLetterFolder, DeadLetterSink
from icefloe.sinks.kafka.kafka_clients import FencedError, KafkaClients
from icefloe.sinks.kafka.kafka_options import KafkaOptions
from icefloe.sinks.kafka.message_format import MessageFormat
from icefloe.sinks.kafka.part_delivery import PartSender, TooLargeChanges
from icefloe.sinks.kafka.retained import lacks_oldest, retained_messages
from icefloe.sinks.kafka.topic_batches import BegunOnTopic, TopicBatches, present_topic
from icefloe.sinks.kafka.topic_state import StateTopic
from icefloe.sinks.kafka.topics import cluster_id, may_be_compacted
from icefloe.sinks.sink import PartDelivery, SchemaOf, Sink
from icefloe.storage.store import Store

Answer = TypeVar("Answer")

_LONGEST_PAUSE_SECONDS: Final = 2.0
_RANDOM: Final = SystemRandom()


class KafkaSink(Sink):
    """Sends each change once to a topic, for readers of committed messages."""

    keyed: ClassVar[bool] = False
    keeps_dead_letters: ClassVar[bool] = True
    keeps_written_columns: ClassVar[bool] = True
    letters_way_out: ClassVar[str] = "raise max.message.bytes of the topic, then `icefloe reset NAME` loads it again"

    def __init__(self, options: KafkaOptions, clients: KafkaClients, letters: DeadLetterFolder | None = None) -> None:
        self._options = options
        self.wants_unique_keys = options.duplicates == "fail"
        self._letters = letters
        self._clients = clients
        self._log = StateTopic(clients, options.tokens)
        self._batches = TopicBatches(clients, options, self._log)
        self._format = MessageFormat(options=options, clients=clients)

    @property
    def url(self) -> str:
        """``kafka://<brokers>/<topic>``."""
        return f"kafka://{self._clients.configuration['bootstrap.servers']}/{self._options.topic}"

    @property
    def shows_removed_rows(self) -> bool:
        """False for plain rows."""
        return self._options.envelope == "debezium"

    def check(self) -> None:
        """Asks the registry and for the topics, and begins as a producer."""
        self._format.check()
        self._batches.check()

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:
        """Makes the topics, and records the owner."""
        self._until_decided(partial(self._batches.claim, origin, takes_over=takes_over, only_looks=only_looks))
        if self._letters is not None and not only_looks:
            self._letters.claim(origin, self._dead_letter_sink(), takes_over=takes_over)

    def begin(self, batch: ProvenBatch) -> Mapping[str, object]:
        """Records that the batch begins; see the package."""
        encoder = self._format.encoder(batch)
        return self._until_decided(partial(self._batches.begin, batch, encoder)).facts()

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        """Sends the part."""
        letters = TooLargeChanges(
            folder=self._letters,
            batch_number=batch.batch_number,
            part_number=part.number,
            has_text=self._options.format == "json",
        )
        sender = PartSender(
            clients=self._clients, options=self._options, log=self._log, encoder=self._format.encoder(batch),
            batch=batch, begun=BegunOnTopic(**begun), part=part, letters=letters,
        )  # fmt: skip
        return self._until_decided(sender.send)

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:
        """Records that the batch is whole."""
        if self._letters is not None:
            self._letters.refuse_too_many(batch.batch_number, sum(each.dead_letters for each in deliveries))
        self._until_decided(partial(self._batches.finish, batch, BegunOnTopic(**begun), deliveries))

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """The changes that the topic retains."""
        return self.read_back_as_written(lambda _number, _names: schema, keys=keys)

    def read_back_as_written(
        self, schema_of: SchemaOf, *, first_batch: int = 0, keys: pa.RecordBatch | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The changes that the topic retains, by the schema of their batch."""
        last = self._log.look().batch
        if last is None:
            return
        topic = present_topic(self._clients, self._options, last=last)
        any_columns = self._format.changes(pa.schema([]))
        wanted = None if keys is None else self._format.keys(keys)
        for messages in retained_messages(self._clients, topic, last.starts):
            found = messages if wanted is None else [each for each in messages if any_columns.key(each) in wanted]
            yield from self._format.changes_as_written(found, schema_of, first_batch=first_batch)

    def may_lack_oldest(self) -> bool:
        """True if retention has deleted messages after the last load."""
        last = self._log.look().batch
        if last is None:
            raise TerminalError(
                f"topic {self._options.tokens} knows of no batch in topic {self._options.topic}: these are other "
                "brokers, or the topics were deleted; correct sink.bootstrap_servers, or load the table again with "
                "icefloe reset"
            )
        return lacks_oldest(self._clients, present_topic(self._clients, self._options, last=last), last.starts)

    def may_lack_replaced(self) -> bool:
        """True if the topic is compacted."""
        return may_be_compacted(self._clients, self._options.topic)

    def dead_letters(self) -> Mapping[int, int]:
        """Count the files of the folder."""
        return {} if self._letters is None else self._letters.counts(self._dead_letter_sink())

    def replay_dead_letters(self, batch_number: int) -> Sequence[PartDelivery]:
        """Refuses: the topic may have newer changes of a letter's key."""
        raise TerminalError(
            f"dead letters of batch {batch_number} cannot be sent in their order to topic {self._options.topic}: "
            "raise its max.message.bytes, then load the table again with icefloe reset"
        )

    def close(self) -> None:
        """Gives back connections."""
        self._log.close()
        self._clients.close()

    def _dead_letter_sink(self) -> DeadLetterSink:
        topic = self._options.topic
        return DeadLetterSink(sink=f"topic {topic}", cluster=cluster_id(self._clients, topic))

    def _until_decided(self, call: Callable[[], Answer]) -> Answer:
        # Two processes that go on fencing each other pause for random times, so that one of them gets through.
        give_up = monotonic() + self._clients.seconds
        pause = 0.05
        while True:
            try:
                return call()
            except FencedError as cause:
                if monotonic() > give_up:
                    raise TransientError(
                        f"other processes keep sending to topic {self._options.topic}, or rows come too slowly for "
                        "sink.transaction_seconds: end the others, or raise it, then run again"
                    ) from cause
            sleep(_RANDOM.uniform(pause / 2, pause))
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def open_kafka_sink(
    options: Mapping[str, object], *, connection: Mapping[str, object], open_store: Callable[[str], Store]
) -> KafkaSink:
    """The sink of a pipeline; arguments as in `open_sink`."""
    checked = KafkaOptions.of(options)
    letters = checked.dead_letters
    clients = KafkaClients.of(checked, connection)
    if letters is None:
        return KafkaSink(checked, clients)
    # Changes after a letter may be in the topic already, so a part that went on without it cannot send it any more.
    way_out = f"raise max.message.bytes of topic {checked.topic} and load the table again with icefloe reset"
    return KafkaSink(checked, clients, DeadLetterFolder(open_store(letters.path), limit=letters.limit, way_out=way_out))
