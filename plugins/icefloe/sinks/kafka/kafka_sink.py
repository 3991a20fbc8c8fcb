"""The kafka sink, and the delivery of a part in bounded transactions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from random import SystemRandom
from time import monotonic, sleep
from typing import Any, ClassVar, Final, TypeVar

import pyarrow as pa

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.kafka.events import BATCH_HEADER, PIPELINE_HEADER, SNAPSHOT_HEADER, event_rows
from icefloe.sinks.kafka.kafka_clients import FencedError, KafkaClients, KafkaOptions
from icefloe.sinks.kafka.message_format import Encoder, MessageFormat
from icefloe.sinks.kafka.topic_batches import (
    BegunOnTopic,
    TopicBatches,
    part_role,
    present_topic,
    topic_missing,
)
from icefloe.sinks.kafka.topic_state import (
    Headers,
    PartProgress,
    StateTopic,
    TopicState,
    TransactionProducer,
    part_key,
    require_placement,
)
from icefloe.sinks.kafka.topics import lacks_oldest, may_be_compacted, most_bytes, retained_messages
from icefloe.sinks.key_changes import one_row_per_key
from icefloe.sinks.sink import PartDelivery, SchemaOf, Sink, superseded
from icefloe.storage.store import Store

Answer = TypeVar("Answer")

_TIME_SHARE: Final = 0.25
"""A transaction is committed after this share of the time after which the broker aborts it."""
_LONGEST_PAUSE_SECONDS: Final = 2.0
_RANDOM: Final = SystemRandom()


class KafkaSink(Sink):
    """Sends each change once to a topic, for readers of committed messages."""

    keyed: ClassVar[bool] = False
    keeps_written_columns: ClassVar[bool] = True

    def __init__(self, options: KafkaOptions, clients: KafkaClients) -> None:
        self._options = options
        self.wants_unique_keys = options.duplicates == "fail"
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

    def begin(self, batch: ProvenBatch) -> Mapping[str, object]:
        """Records that the batch begins; see the package."""
        encoder = self._format.encoder(batch)
        return asdict(self._until_decided(partial(self._batches.begin, batch, encoder)))

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        """Sends the part."""
        sender = PartSender(
            clients=self._clients, options=self._options, log=self._log, encoder=self._format.encoder(batch),
            batch=batch, begun=BegunOnTopic(**begun), part=part,
        )  # fmt: skip
        return self._until_decided(sender.send)

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:  # noqa: ARG002
        """Records that the batch is whole."""
        self._until_decided(partial(self._batches.finish, batch, BegunOnTopic(**begun)))

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """The changes that the topic retains."""
        return self.read_back_as_written(lambda _number: schema, keys=keys)

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

    def close(self) -> None:
        """Gives back connections."""
        self._log.close()
        self._clients.close()

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
    options: Mapping[str, object],
    *,
    connection: Mapping[str, object],
    open_store: Callable[[str], Store],  # noqa: ARG001
) -> KafkaSink:
    """The sink of a pipeline; arguments as in `open_sink`."""
    checked = KafkaOptions.of(options)
    return KafkaSink(checked, KafkaClients.of(checked, connection))


@dataclass(kw_only=True)
class PartSender:
    """Sends one part."""

    clients: KafkaClients
    options: KafkaOptions
    log: StateTopic
    encoder: Encoder
    batch: ProvenBatch
    begun: BegunOnTopic
    part: StagedPart
    _bytes: int = 0

    def send(self) -> PartDelivery:
        """Sends the rows that are not in the topic yet. FencedError: another process sends this part; look again."""
        self._require_placement(key_schema_id=self.encoder.key_schema_id)
        # Asked for in each try: an administrator may have raised it since the last one.
        taken_bytes = most_bytes(self.clients, self.options.topic)
        if taken_bytes is None:
            raise topic_missing(self.options)
        role = part_role(self.part.number)
        with TransactionProducer(self.clients, self.options, role, most_bytes=taken_bytes) as producer:
            state = self.log.look()
            if self._is_superseded(state) and self.batch.is_replay:
                # The topic has later batches, so this one was delivered before them.
                events = sum(len(slice_.kinds) for slice_ in event_rows(self.part.read()))
                return PartDelivery(
                    number=self.part.number, rows=self.part.rows, documents=events, superseded=events
                )  # fmt: skip
            if self._is_superseded(state):
                raise superseded(self.batch, f"topic {self.options.topic}")
            if self.part.number not in state.parts:
                # Whoever fences the parts of this batch must know this number, before anything is sent under it.
                progress = PartProgress(generation=self.begun.generation)
                producer.commit_record(part_key(self.part.number), progress)
                state = self.log.look()
                if self._is_superseded(state):
                    raise superseded(self.batch, f"topic {self.options.topic}")
            done = self._done(state)
            if not done.rows and self.batch.identity and self.options.duplicates == "fail":
                one_row_per_key(self.part.read, identity=self.batch.identity, hash_key=self.batch.hash_key)
            sent = done if done.rows >= self.part.rows else self._send_after(producer, done)
        return PartDelivery(
            number=self.part.number, rows=self.part.rows, documents=sent.events, repeated=done.events,
            bytes=self._bytes,
        )  # fmt: skip

    @property
    def _order(self) -> tuple[int, int]:
        return self.begun.generation, self.batch.batch_number

    def _is_superseded(self, state: TopicState) -> bool:
        claim, last = state.claim, state.batch
        return claim is None or last is None or claim.generation > self._order[0] or last.order > self._order

    def _done(self, state: TopicState) -> PartProgress:
        found = state.parts[self.part.number]
        if (found.generation, found.batch_number) == self._order:
            return found
        return PartProgress(generation=self.begun.generation, batch_number=self.batch.batch_number)

    def _send_after(self, producer: TransactionProducer, done: PartProgress) -> PartProgress:
        rows, events, waiting = done.rows, done.events, _Waiting(self.options)
        # Sent after a delete, so that a compacted topic drops the row.
        has_tombstones = self.options.tombstones and bool(self.batch.identity)
        for slice_ in event_rows(self.part.read(), skip_rows=done.rows, rows_before=self.part.first_row):
            keys, values = self.encoder.encode(slice_)
            headers = self._headers(slice_)
            for key, value, is_delete, end, header in zip(
                keys, values, slice_.deletes, slice_.ends.tolist(), headers, strict=True
            ):
                rows = end
                if not waiting.events:
                    producer.begin()
                producer.send(self.options.topic, key=key, value=value, headers=header)
                if is_delete and has_tombstones and value is not None:
                    producer.send(self.options.topic, key=key, value=None, headers=header)
                size = len(key or b"") + len(value or b"")
                self._bytes += size
                events += 1
                waiting.add(size)
                if waiting.is_full:
                    self._commit(producer, rows, events)
                    waiting = _Waiting(self.options)
        if waiting.events:
            self._commit(producer, rows, events)
        return PartProgress(generation=done.generation, batch_number=done.batch_number, rows=rows, events=events)

    def _commit(self, producer: TransactionProducer, rows: int, events: int) -> None:
        progress = PartProgress(
            generation=self.begun.generation, batch_number=self.batch.batch_number, rows=rows, events=events
        )
        # The record is the last message: readers of the state wait for whatever follows an open transaction's first.
        producer.flush()
        producer.record(part_key(self.part.number), progress)
        partitions = producer.partitions_of(self.options.topic)
        if not partitions:
            raise topic_missing(self.options)
        # Partitions are only ever added, so those of every message before were no more.
        self._require_placement(partitions=partitions)
        producer.commit()

    def _require_placement(self, **found: int | None) -> None:
        require_placement(self.options.topic, asdict(self.begun), found)

    def _headers(self, events: Any) -> list[Headers]:
        number, pipeline = str(self.batch.batch_number).encode(), self.batch.origin.pipeline.encode()
        fixed = [(PIPELINE_HEADER, pipeline), (BATCH_HEADER, number)]
        ids = events.snapshot_ids
        by_snapshot = {each: [*fixed, (SNAPSHOT_HEADER, str(each).encode())] for each in {*ids}}
        return [by_snapshot[each] for each in ids]


class _Waiting:
    def __init__(self, options: KafkaOptions) -> None:
        self.events = self._bytes = 0
        self._options, self._began = options, monotonic()

    def add(self, size: int) -> None:
        self._began = self._began if self.events else monotonic()
        self.events, self._bytes = self.events + 1, self._bytes + size

    @property
    def is_full(self) -> bool:
        seconds = self._options.transaction_seconds * _TIME_SHARE
        is_large = self.events >= self._options.transaction_rows or self._bytes >= self._options.transaction_bytes
        return is_large or monotonic() - self._began > seconds
