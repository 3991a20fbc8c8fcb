"""The kafka sink: the owner of a topic, and its batches, which begin before their parts and end after them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import wraps
from random import SystemRandom
from time import monotonic, sleep
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar

import pyarrow as pa

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.events import fixed_types
from icefloe.sinks.kafka.kafka_clients import FencedError, KafkaClients, KafkaOptions
from icefloe.sinks.kafka.message_format import Encoder, MessageFormat
from icefloe.sinks.kafka.part_sender import PartSender
from icefloe.sinks.kafka.topic_state import (
    BATCH_KEY,
    CLAIM_KEY,
    SETTINGS,
    Placement,
    StartedBatch,
    StateTopic,
    TopicClaim,
    TopicState,
    TransactionProducer,
    part_role,
)
from icefloe.sinks.kafka.topics import (
    Topic,
    find_topic,
    holds_messages,
    lacks_oldest,
    make_topic,
    may_be_compacted,
    offsets,
    present_topic,
    retained_messages,
)
from icefloe.sinks.sink import PartDelivery, SchemaOf, Sink, refuse_other_record, superseded
from icefloe.storage.store import Store

Answer = TypeVar("Answer")
Asked = ParamSpec("Asked")
_LONGEST_PAUSE_SECONDS: Final = 2.0
_RANDOM: Final = SystemRandom()


def _until_decided(
    call: "Callable[Concatenate[KafkaSink, Asked], Answer]",
) -> "Callable[Concatenate[KafkaSink, Asked], Answer]":
    """Repeats a call that another process fences; the newest producer of an id decides, and looks again."""

    # Two processes that go on fencing each other pause for random times, so that one of them gets through.
    @wraps(call)
    def repeated(sink: "KafkaSink", /, *arguments: Asked.args, **named: Asked.kwargs) -> Answer:
        give_up = monotonic() + sink._clients.seconds
        pause = 0.05
        while True:
            try:
                return call(sink, *arguments, **named)
            except FencedError as cause:
                if monotonic() > give_up:
                    raise TransientError(
                        f"other processes keep sending to topic {sink._options.topic}, or rows come too slowly for "
                        "sink.transaction_seconds: end the others, or raise it, then run again"
                    ) from cause
            sleep(_RANDOM.uniform(pause / 2, pause))
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    return repeated


class KafkaSink(Sink):
    """Sends each change once to a topic, for readers of committed messages."""

    keyed: ClassVar[bool] = False
    keeps_written_columns: ClassVar[bool] = True

    def __init__(self, options: KafkaOptions, clients: KafkaClients) -> None:
        self._options = options
        self.wants_unique_keys = options.duplicates == "fail"
        self.shows_removed_rows = options.envelope == "debezium"
        self._clients = clients
        self._log = StateTopic(clients, options.tokens)
        self._format = MessageFormat(options, clients)

    @property
    def url(self) -> str:
        """``kafka://<brokers>/<topic>``."""
        return f"kafka://{self._clients.configuration['bootstrap.servers']}/{self._options.topic}"

    def check(self) -> None:
        """Asks the registry, for the topics or whether they may be made, and begins as a producer."""
        if self._format.registry is not None:
            self._format.registry.check()
        self._make_topics(only_try=True)
        # Under an id of its own: a check must not fence a decision.
        with self._producer("checks"):
            pass

    @_until_decided
    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:
        """Makes missing topics, and records the owner of a topic that is another origin's only in a take-over."""
        if not takes_over:
            self._look(origin)
        if only_looks:
            return
        self._make_topics(only_try=False)
        with self._producer("decides") as producer:
            claim = self._log.look().claim
            if claim is not None and not takes_over:
                self._require_owner(claim, origin)
            if claim is None or claim.owner != origin.owner:
                generation = 1 if claim is None else claim.generation + 1
                producer.commit_record(CLAIM_KEY, TopicClaim(generation=generation, **asdict(origin)))

    @_until_decided
    def begin(self, batch: ProvenBatch) -> Mapping[str, object]:
        """Records the batch, and keeps every part of an earlier one from writing; see the package."""
        # A try that only fenced has begun nothing: truncation and offsets of a load come later.
        encoder = Encoder(self._format, batch)
        with self._producer("decides") as producer:
            state, topic = self._log.look(), present_topic(self._clients, self._options.topic)
            last, new = state.batch, self._started(state, topic, batch, encoder)
            begun = {"generation": new.generation, "destination": f"topic {topic.name} ({topic.id})"}
            refuse_other_record(
                batch, None if last is None else last.order, new.generation, place=f"topic {topic.name}",
                elsewhere=f"these are other brokers, or topic {self._options.tokens} was made again; correct "
                "sink.bootstrap_servers", last_end=None if last is None else last.end,
            )  # fmt: skip
            if last is not None and last.order > new.order:
                return begun
            if last is not None:
                if last.order == new.order or not batch.begins_anew:
                    self._refuse_changed(last, new, batch)
                if last.order == new.order and last.state != "fencing":
                    return begun
                self._fence(producer, last, new)
            is_first = last is None or last.generation != new.generation
            # A topic may be filled although its state knows no batch: by another program, or before the state was lost.
            is_filled = any(each.rows for each in state.parts.values()) or holds_messages(self._clients, topic)
            if (batch.begins_anew or is_first) and is_filled:
                new = replace(new, starts=tuple(offsets(self._clients, topic)))
                # A load says in each partition that it begins again.
                for partition in range(topic.partitions if batch.begins_anew else 0):
                    producer.send(topic.name, key=None, value=encoder.truncation(), headers=[], partition=partition)
            producer.commit_record(BATCH_KEY, new)
        return begun

    @_until_decided
    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        """Sends the part."""
        return PartSender(
            clients=self._clients, options=self._options, log=self._log, encoder=Encoder(self._format, batch),
            batch=batch, generation=begun["generation"], part=part,
        ).send()  # fmt: skip

    @_until_decided
    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:  # noqa: ARG002
        """Records that all parts of a batch are delivered."""
        with self._producer("decides") as producer:
            last = self._log.look().batch
            is_late = last is not None and last.order > (begun["generation"], batch.batch_number)
            if is_late and not batch.is_replay:
                raise superseded(batch, f"topic {self._options.topic}")
            if last is not None and not is_late and last.state != "finished":
                producer.commit_record(BATCH_KEY, replace(last, state="finished"))

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
        wanted = None if keys is None else self._format.keys(keys)
        for messages in retained_messages(self._clients, self._topic_of(last), last.starts):
            found = messages if wanted is None else [each for each in messages if self._format.key(each) in wanted]
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
        return lacks_oldest(self._clients, self._topic_of(last), last.starts)

    def may_lack_replaced(self) -> bool:
        """True if the topic is compacted."""
        return may_be_compacted(self._clients, self._options.topic)

    def close(self) -> None:
        """Gives back connections."""
        self._log.close()
        self._clients.close()

    def _producer(self, role: str) -> TransactionProducer:
        return TransactionProducer(self._clients, self._options, role)

    def _topic_of(self, last: StartedBatch) -> Topic:
        """The topic as it is now, which must hold the last batch."""
        topic = present_topic(self._clients, self._options.topic)
        last.placement.require(topic.name, topic_id=topic.id)
        return topic

    def _make_topics(self, *, only_try: bool) -> None:
        options = self._options
        for name, partitions, settings in (
            (options.tokens, 1, SETTINGS), (options.topic, options.partitions, options.topic_settings)
        ):  # fmt: skip
            make_topic(
                self._clients, name, partitions=partitions, replication_factor=options.replication_factor,
                settings=settings, only_try=only_try,
            )  # fmt: skip

    def _look(self, origin: Origin) -> None:
        topic = find_topic(self._clients, self._options.topic)
        is_filled = topic is not None and holds_messages(self._clients, topic)
        # In this order: whoever fills the topic meanwhile has claimed it before.
        state = self._log.look()
        if state.claim is not None:
            self._require_owner(state.claim, origin)
        elif is_filled:
            raise TerminalError(
                f"topic {self._options.topic} holds messages, and topic {self._options.tokens} does not say whose they "
                f"are: if this checkpoint of pipeline {origin.pipeline} has delivered them, load the table again with "
                f"icefloe reset {origin.pipeline}; otherwise give it a topic of its own, or run once with --take-over "
                "to keep this one",
                owner="",
            )

    def _require_owner(self, claim: TopicClaim, origin: Origin) -> None:
        place, record = f"topic {self._options.topic}", f"topic {self._options.tokens}"
        origin.refuse_other(claim, place=place, record=record, key="sink.topic of its own")

    def _started(self, state: TopicState, topic: Topic, batch: ProvenBatch, encoder: Encoder) -> StartedBatch:
        if state.claim is None:
            raise TerminalError(
                f"topic {self._options.tokens} does not say whose topic {topic.name} is: it was deleted, or its "
                f"records were; load the table again with icefloe reset {batch.origin.pipeline}",
                owner="",
            )
        self._require_owner(state.claim, batch.origin)
        return StartedBatch(
            generation=state.claim.generation, batch_number=batch.batch_number, state="open",
            end=batch.end,
            placement=Placement(
                topic_id=topic.id, partitions=topic.partitions, identity=batch.identity,
                key_types=fixed_types(batch, is_avro=self._options.format == "avro"),
                key_schema_id=encoder.key_schema_id,
            ),
            starts=() if state.batch is None else state.batch.starts, cut=batch.cut,
        )  # fmt: skip

    def _refuse_changed(self, last: StartedBatch, new: StartedBatch, batch: ProvenBatch) -> None:
        """Raise if the topic, the partition of a key, or the parts of a begun batch are not those of the last try."""
        name = batch.origin.pipeline
        # Messages of an owner before count no longer.
        if last.generation == new.generation:
            last.placement.require(self._options.topic, **asdict(new.placement))
        # Numbers of parts say nothing of their rows if the batch is divided otherwise now.
        is_begun = last.order == new.order and last.state != "fencing"
        if is_begun and last.cut and batch.cut not in ("", last.cut):
            raise TerminalError(
                f"topic {self._options.topic} may have rows of batch {batch.batch_number} of {name}; its staged files "
                "were lost and made again in other parts, so rows would come twice or be missing: put the files back "
                f"(storage, changelog.path), or load the table again with icefloe reset {name}"
            )

    def _fence(self, producer: TransactionProducer, last: StartedBatch, new: StartedBatch) -> None:
        """Keep parts of a batch that never ended from writing."""
        is_of_other_owner = last.generation != new.generation
        if last.state == "finished" and not is_of_other_owner:
            return
        if not is_of_other_owner:
            # Parts of an owner before stop at the claim. The record stays theirs, so that each try finds the change.
            producer.commit_record(BATCH_KEY, replace(new, state="fencing"))
        # The producers of all part numbers that were ever used. Later ones see the record of this batch.
        for number in sorted(self._log.look().parts):
            with self._producer(part_role(number)):
                pass


def open_kafka_sink(
    options: Mapping[str, object],
    *,
    connection: Mapping[str, object],
    open_store: Callable[[str], Store],  # noqa: ARG001
) -> KafkaSink:
    """The sink of a pipeline; arguments as in `open_sink`."""
    checked = KafkaOptions.of(options)
    return KafkaSink(checked, KafkaClients.of(checked, connection))
