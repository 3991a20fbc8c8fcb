"""The kafka sink, and the delivery of a part in bounded transactions."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import SystemRandom
from time import monotonic, sleep
from typing import Any, ClassVar, Final, TypeVar

import pyarrow as pa

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.dead_letters import DeadLetter, DeadLetterFolder, DeadLetterSink
from icefloe.sinks.kafka.events import BATCH_HEADER, PIPELINE_HEADER, SNAPSHOT_HEADER, event_rows
from icefloe.sinks.kafka.kafka_clients import FencedError, KafkaClients, KafkaOptions
from icefloe.sinks.kafka.message_format import Encoder, MessageFormat
from icefloe.sinks.kafka.topic_batches import (
    BegunOnTopic,
    TopicBatches,
    key_schema_changed,
    keys_would_move,
    part_role,
    present_topic,
    topic_missing,
)
from icefloe.sinks.kafka.topic_state import Headers, PartProgress, StateTopic, TopicState, TransactionProducer, part_key
from icefloe.sinks.kafka.topics import cluster_id, lacks_oldest, may_be_compacted, most_bytes, retained_messages
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
    letters: "TooLargeChanges"
    _bytes: int = 0

    def send(self) -> PartDelivery:
        """Sends the rows that are not in the topic yet.

        Raises:
            FencedError: another process sends this part; look again.
            SupersededError: a later batch was begun.
        """
        if self.begun.key_schema_id not in (None, self.encoder.key_schema_id):
            raise key_schema_changed(self.options, self.encoder.key_schema_id, self.begun.key_schema_id)
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
            self.letters.go_on_after(self.part.first_row + done.rows)
            sent = done if done.rows >= self.part.rows else self._send_after(producer, done)
        return PartDelivery(
            number=self.part.number, rows=self.part.rows, documents=sent.events, repeated=done.events,
            dead_letters=self.letters.count(), bytes=self._bytes,
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
        for slice_ in event_rows(self.part.read(), skip_rows=done.rows, rows_before=self.part.first_row):
            keys, values = self.encoder.encode(slice_)
            headers = self._headers(slice_)
            for key, value, is_delete, end, header in zip(
                keys, values, slice_.deletes, slice_.ends.tolist(), headers, strict=True
            ):
                rows = end
                # A message without a value follows a delete, or takes its place if that is too large.
                has_tombstone = is_delete and key is not None and self.options.tombstones
                refused = producer.refusal_of(key, value)
                if refused is not None:
                    self.letters.keep(refused, self.part.first_row + end, key=key, value=value)
                    if not has_tombstone or producer.refusal_of(key, None) is not None:
                        continue
                if not waiting.events:
                    producer.begin()
                sent = [value] if refused is None else []
                for each in [*sent, None] if has_tombstone and value is not None else sent:
                    producer.send(self.options.topic, key=key, value=each, headers=header)
                size = len(key or b"") + (len(value or b"") if sent else 0)
                self._bytes += size
                events += len(sent)
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
        if partitions != self.begun.partitions:
            raise keys_would_move(
                f"topic {self.options.topic} got {partitions} partitions while batch {self.batch.batch_number} was "
                f"delivered, and had {self.begun.partitions}"
            )
        producer.commit()
        self.letters.committed(self.part.first_row + rows)

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


@dataclass(kw_only=True)
class TooLargeChanges:
    """The dead letters of one part.

    Attributes:
        folder: None: the first change that is too large is an error.
    """

    folder: DeadLetterFolder | None
    batch_number: int
    part_number: int
    has_text: bool
    _places: set[int] = field(default_factory=set)
    _tried_again: set[int] = field(default_factory=set)

    def go_on_after(self, place: int) -> None:
        """Counts earlier letters up to a place; later changes are tried again."""
        found = frozenset() if self.folder is None else self.folder.places(self.batch_number, self.part_number)
        self._places = {each for each in found if each <= place}
        self._tried_again = {each for each in found if each > place}

    def keep(self, refused: TerminalError, order: int, *, key: bytes | None, value: bytes | None) -> None:
        """Keeps a change, before anything after it is committed."""
        if self.folder is None:
            raise refused
        letter = DeadLetter(
            id="" if key is None else self._text(key), version=order, operation="send",
            document=None if value is None else json.loads(value) if self.has_text else self._text(value),
            reason=str(refused),
        )  # fmt: skip
        self.folder.put_one(self.batch_number, self.part_number, order, letter)
        self._places.add(order)
        self._tried_again.discard(order)
        self.folder.refuse_too_many(self.batch_number, self.count(), [letter])

    def committed(self, place: int) -> None:
        """Removes earlier letters up to a place: the topic took these changes."""
        sent = {each for each in self._tried_again if each <= place}
        if self.folder is not None and sent:
            self.folder.remove(self.batch_number, self.part_number, sent)
            self._tried_again -= sent

    def count(self) -> int:
        """The letters of the part, without changes that this try sends."""
        return len(self._places)

    def _text(self, message: bytes) -> Any:
        return message.decode() if self.has_text else b64encode(message).decode()
