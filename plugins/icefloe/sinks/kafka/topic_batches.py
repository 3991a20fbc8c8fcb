"""The owner of a topic, and its batches, which begin before their parts and end after them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch
from icefloe.sinks.kafka.events import fixed_types
from icefloe.sinks.kafka.kafka_clients import KafkaClients, KafkaOptions
from icefloe.sinks.kafka.message_format import Encoder
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
    require_placement,
)
from icefloe.sinks.kafka.topics import Topic, end_offsets, find_topic, holds_messages, make_topic
from icefloe.sinks.sink import refuse_other_record, superseded


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunOnTopic:
    """Facts that fence a batch and place its messages, the same for all tries and parts."""

    # No settings of the topic: they may change, so each part asks for them.

    generation: int
    partitions: int
    destination: str  # the topic in words, with its id
    key_schema_id: int | None = None  # from a schema registry; None: keys have none


class TopicBatches:
    """Decides about a topic; the newest producer of one id decides alone. After a `FencedError`, look again."""

    def __init__(self, clients: KafkaClients, options: KafkaOptions, log: StateTopic) -> None:
        self._clients = clients
        self._options = options
        self._log = log

    def check(self) -> None:
        """Prove that the cluster answers, and has or may make the topics."""
        self._make_topics(only_try=True)
        # Under an id of its own: a check must not fence a decision.
        with TransactionProducer(self._clients, self._options, "checks"):
            pass

    def claim(self, origin: Origin, *, takes_over: bool, only_looks: bool = False) -> None:
        """Make missing topics, and record the owner of a topic that is another origin's only in a take-over."""
        if not takes_over:
            self._look(origin)
        if only_looks:
            return
        self._make_topics(only_try=False)
        with self._deciding() as producer:
            claim = self._log.look().claim
            if claim is not None and not takes_over:
                self._require_owner(claim, origin)
            if claim is not None and claim.owner == origin.owner:
                return
            generation = 1 if claim is None else claim.generation + 1
            new = TopicClaim(generation=generation, owner=origin.owner, pipeline=origin.pipeline, table=origin.table)
            producer.commit_record(CLAIM_KEY, new)

    def begin(self, batch: ProvenBatch, encoder: Encoder) -> BegunOnTopic:
        """Record the batch, and keep every part of an earlier one from writing."""
        # SupersededError: a later batch was begun, and this is no replay.
        # A try that only fenced has begun nothing: truncation and offsets of a load come later.
        with self._deciding() as producer:
            state, topic = self._log.look(), present_topic(self._clients, self._options)
            last, new = state.batch, self._started(state, topic, batch, encoder)
            begun = BegunOnTopic(
                generation=new.generation, partitions=topic.partitions, destination=f"topic {topic.name} ({topic.id})",
                key_schema_id=encoder.key_schema_id,
            )  # fmt: skip
            refuse_other_record(
                batch, None if last is None else last.order, new.generation, place=f"topic {topic.name}",
                elsewhere=f"these are other brokers, or topic {self._options.tokens} was made again; correct "
                "sink.bootstrap_servers",
            )  # fmt: skip
            if last is not None and last.order > new.order:
                return begun
            if last is not None:
                if last.order == new.order or not batch.begins_anew:
                    self._refuse_changed(last, new, batch)
                if last.order == new.order and last.state != "fencing":
                    return begun
                self._fence(producer, last, new)
            truncation = None
            is_first = last is None or last.generation != new.generation
            # A topic may be filled although its state knows no batch: by another program, or before the state was lost.
            is_filled = any(each.rows for each in state.parts.values()) or holds_messages(self._clients, topic)
            if (batch.begins_anew or is_first) and is_filled:
                truncation = _truncation(encoder, topic) if batch.begins_anew else None
                new = replace(new, starts=tuple(end_offsets(self._clients, topic)))
            _open(producer, self._options, new, truncation)
        return begun

    def finish(self, batch: ProvenBatch, begun: BegunOnTopic) -> None:
        """Record that all parts of a batch are delivered; errors as in `begin`."""
        with self._deciding() as producer:
            last = self._log.look().batch
            is_late = last is not None and last.order > (begun.generation, batch.batch_number)
            if last is None or (batch.is_replay and is_late):
                return
            if is_late:
                raise superseded(batch, f"topic {self._options.topic}")
            if last.state != "finished":
                producer.commit_record(BATCH_KEY, replace(last, state="finished"))

    def _deciding(self) -> TransactionProducer:
        return TransactionProducer(self._clients, self._options, "decides")

    def _make_topics(self, *, only_try: bool) -> None:
        options = self._options
        wanted: dict[str, tuple[int | None, Mapping[str, object]]] = {
            options.tokens: (1, SETTINGS),
            options.topic: (options.partitions, options.topic_settings),
        }
        for name, (partitions, settings) in wanted.items():
            if find_topic(self._clients, name) is None:
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
            require_placement(self._options.topic, asdict(last.placement), asdict(new.placement))
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
            with TransactionProducer(self._clients, self._options, part_role(number)):
                pass


def part_role(number: int) -> str:
    """The role of the producers of a part."""
    return f"part-{number}"


def present_topic(clients: KafkaClients, options: KafkaOptions, *, last: StartedBatch | None = None) -> Topic:
    """The topic as it is now, which must hold the last batch, if any."""
    topic = find_topic(clients, options.topic)
    if topic is None:
        raise topic_missing(options)
    if last is not None:
        require_placement(topic.name, asdict(last.placement), {"topic_id": topic.id})
    return topic


def topic_missing(options: KafkaOptions) -> TerminalError:
    """The error of a topic that is gone."""
    return TerminalError(
        f"topic {options.topic} is missing: it was deleted with the changes in it; make the pipeline begin again "
        "with icefloe reset and another sink.topic"
    )


def _truncation(encoder: Encoder, topic: Topic) -> bytes:
    message = encoder.truncation()
    if message is None:
        raise TerminalError(
            f"topic {topic.name} has rows from before this load, and sink.envelope: plain cannot say that they are "
            "gone: give sink.topic another name, or use envelope: debezium"
        )
    return message


def _open(producer: TransactionProducer, options: KafkaOptions, record: StartedBatch, truncation: bytes | None) -> None:
    """Lets the parts begin; a load says in each partition that it begins again."""
    producer.begin()
    if truncation is not None:
        for partition in range(record.placement.partitions):
            producer.send(options.topic, key=None, value=truncation, headers=[], partition=partition)
    producer.record(BATCH_KEY, record)
    producer.commit()
