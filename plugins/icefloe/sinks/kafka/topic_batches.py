"""The owner of a topic, and its batches: each begun before its parts, finished after them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import time_ns
from typing import Any, Self

from icefloe.documents import dump_document
from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch
from icefloe.sinks.kafka.events import Encoder, fixed_types
from icefloe.sinks.kafka.kafka_clients import KafkaClients
from icefloe.sinks.kafka.kafka_options import KafkaOptions
from icefloe.sinks.kafka.topic_state import (
    BATCH_KEY,
    CLAIM_KEY,
    CUT_KEY,
    SETTINGS,
    BatchCut,
    StartedBatch,
    StateTopic,
    TopicClaim,
    TopicState,
    TransactionProducer,
)
from icefloe.sinks.kafka.topics import Topic, end_offsets, find_topic, holds_messages, make_topic
from icefloe.sinks.sink import PartDelivery, SupersededError


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunOnTopic:
    """Facts that fence a batch and place its messages, so that no try may have others.

    Settings of the topic are none of them. They may be changed between two tries, so each part asks for them.

    Attributes:
        generation: of the claim; one of a later owner is greater.
        topic: the topic in words, with the id that the cluster gave it.
        key_schema_id: the id that keys have from a schema registry; None: they have none.
    """

    generation: int
    partitions: int
    topic: str
    key_schema_id: int | None = None

    def facts(self) -> Mapping[str, object]:
        """The answer of `Sink.begin`."""
        facts = {
            "generation": self.generation,
            "partitions": self.partitions,
            "destination": self.topic,
            "key_schema_id": self.key_schema_id,
        }
        return {name: fact for name, fact in facts.items() if fact is not None}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """The facts as they were recorded."""
        return cls(
            generation=facts["generation"],
            partitions=facts["partitions"],
            topic=facts["destination"],
            key_schema_id=facts.get("key_schema_id"),
        )


def present_topic(clients: KafkaClients, options: KafkaOptions) -> Topic:
    """The topic as it is now."""
    topic = find_topic(clients, options.topic)
    if topic is None:
        raise topic_missing(options)
    return topic


def topic_missing(options: KafkaOptions) -> TerminalError:
    """The error of a topic that is there no more."""
    return TerminalError(
        f"topic {options.topic} is missing: it was deleted with the changes in it; make the pipeline begin again "
        "with icefloe reset and another sink.topic",
    )  # fmt: skip


def topic_of_batches(clients: KafkaClients, options: KafkaOptions, last: StartedBatch) -> Topic:
    """The topic that holds a batch."""
    topic = present_topic(clients, options)
    if topic.id != last.topic_id:
        raise _made_again(options, last, partitions=topic.partitions)
    return topic


def refuse_other_history(
    last: StartedBatch | None, batch: ProvenBatch, topic: Topic, options: KafkaOptions, *, generation: int
) -> None:
    """Raise if the topic lacks batches before this one, or has those of another owner that this one leaves there."""
    if last is None and batch.continues:
        raise TerminalError(
            f"topic {options.topic} knows nothing of pipeline {batch.origin.pipeline}, and batch "
            f"{batch.batch_number} goes on where others ended: these are other brokers, or topic {options.tokens} "
            "was made again; correct sink.bootstrap_servers, or load the table again with icefloe reset",
        )  # fmt: skip
    is_of_owner_before = last is not None and last.generation != generation
    if is_of_owner_before and not (batch.begins_anew or batch.is_replay):
        raise TerminalError(
            f"topic {options.topic} was taken over from another pipeline and has its changes, and batch "
            f"{batch.batch_number} of pipeline {batch.origin.pipeline} replaces nothing: run icefloe reset "
            f"{batch.origin.pipeline}, whose load does",
        )  # fmt: skip
    before = batch.delivered_before
    if last is not None and before is not None and last.batch_number < before:
        name = batch.origin.pipeline
        raise TerminalError(
            f"topic {options.topic} had batch {before} of {name}, and topic {options.tokens} says that batch "
            f"{last.batch_number} was the last: both were restored from a backup, or these are other brokers; bring "
            f"what is missing by icefloe deliver {name} --batches {last.batch_number + 1}-{before}, or load the table "
            "again with icefloe reset",
        )  # fmt: skip


def refuse_changed_topic(last: StartedBatch, new: StartedBatch, options: KafkaOptions) -> None:
    """Raise if a batch would not go on in the topic, or in the partitions of its keys, that the last one used."""
    if last.topic_id != new.topic_id:
        raise _made_again(options, last, partitions=new.partitions)
    if last.partitions != new.partitions:
        raise TerminalError(
            f"topic {options.topic} has {new.partitions} partitions, and had {last.partitions} in batch "
            f"{last.batch_number}: keys would move, and their changes lose their order; load the table again with "
            "icefloe reset, or deliver to another sink.topic",
        )  # fmt: skip
    if last.identity != new.identity:
        raise TerminalError(
            f"the key of topic {options.topic} is {', '.join(new.identity) or 'missing'}, and was "
            f"{', '.join(last.identity) or 'missing'} in batch {last.batch_number}: keys would move, and their changes "
            "lose their order; load the table again with icefloe reset",
        )  # fmt: skip
    promoted = {name: kind for name, kind in last.key_types.items() if new.key_types.get(name) != kind}
    if promoted:
        were = ", ".join(f"{name}, which was {kind}" for name, kind in promoted.items())
        raise TerminalError(
            f"the type of a column of the key of topic {options.topic} has changed since batch {last.batch_number} "
            f"({were}): keys would move, and their changes lose their order; load the table again with icefloe reset",
        )  # fmt: skip
    # Messages of an owner before count no longer.
    if last.generation == new.generation and last.key_schema_id != new.key_schema_id:
        raise key_schema_changed(options, new.key_schema_id, last.key_schema_id, partitions=new.partitions)


def key_schema_changed(options: KafkaOptions, now: int | None, before: int | None, *, partitions: int) -> TerminalError:
    """The error of a registry that gives the schema of keys another id."""
    return TerminalError(
        f"the schema registry gives the keys of topic {options.topic} the schema id {now}, and gave them {before}: "
        "keys would move, and their changes lose their order; correct sink.schema_registry, restore the registry with "
        "its ids, or load the table again with icefloe reset",
    )  # fmt: skip


def _made_again(options: KafkaOptions, last: StartedBatch, *, partitions: int) -> TerminalError:
    return TerminalError(
        f"topic {options.topic} was deleted and made again since batch {last.batch_number}, so its earlier changes are "
        "gone: load the table again with icefloe reset",
    )  # fmt: skip


def deciding(clients: KafkaClients, options: KafkaOptions) -> TransactionProducer:
    """The producer that decides. It fences whoever was about to decide, so decisions follow one another."""
    return TransactionProducer(clients, options, "decides")


def check_topics(clients: KafkaClients, options: KafkaOptions) -> None:
    """Proves that the cluster answers, and that the topics are there or may be made. Nothing is written."""
    for name, (partitions, settings) in _wanted(options).items():
        if find_topic(clients, name) is None:
            make_topic(
                clients, name, partitions=partitions, replication_factor=options.replication_factor,
                settings=settings, only_try=True,
            )  # fmt: skip
    # Under an id of its own: a check must not fence a decision.
    with TransactionProducer(clients, options, "checks"):
        pass


def refuse_other_owner(clients: KafkaClients, options: KafkaOptions, log: StateTopic, origin: Origin) -> None:
    """Raise if the topic is another origin's, or holds messages and is nobody's."""
    topic = find_topic(clients, options.topic)
    is_filled = topic is not None and holds_messages(clients, topic)
    # In this order: whoever fills the topic meanwhile has claimed it before.
    state = log.look() or TopicState()
    if state.claim is not None:
        refuse_other(state.claim, options, origin)
    elif is_filled:
        raise TerminalError(
            f"topic {options.topic} holds messages, and topic {options.tokens} does not say whose they are: if this "
            f"checkpoint of pipeline {origin.pipeline} has delivered them, load the table again with icefloe reset "
            f"{origin.pipeline}; otherwise give it a topic of its own, or run once with --take-over to keep this one",
            owner="",
        )


def refuse_other(claim: TopicClaim, options: KafkaOptions, origin: Origin) -> None:
    """Raise if a claim is another origin's."""
    if claim.owner != origin.owner:
        raise TerminalError(
            f"topic {options.topic} belongs to pipeline {claim.pipeline} for table {claim.table} with the checkpoint "
            f"{claim.owner}, as topic {options.tokens} says, not to checkpoint {origin.owner} of pipeline "
            f"{origin.pipeline}; give each pipeline, and each new start of one, a sink.topic of its own",
            owner=claim.owner,
        )


def claim_topic(
    clients: KafkaClients, options: KafkaOptions, log: StateTopic, origin: Origin, *, takes_over: bool
) -> None:
    """Makes the topics that are missing, and writes down the owner.

    Raises:
        FencedError: another decision was made meanwhile; look again.
    """
    if not takes_over:
        refuse_other_owner(clients, options, log, origin)
    _make_topics(clients, options)
    with deciding(clients, options) as producer:
        state = log.look() or TopicState()
        claim = state.claim
        if claim is not None and not takes_over:
            refuse_other(claim, options, origin)
        if claim is not None and claim.owner == origin.owner:
            return
        generation = 1 if claim is None else claim.generation + 1
        new = TopicClaim(generation=generation, owner=origin.owner, pipeline=origin.pipeline, table=origin.table)
        producer.commit_records(options.tokens, [(CLAIM_KEY, dump_document(new))])


def _make_topics(clients: KafkaClients, options: KafkaOptions) -> None:
    for name, (partitions, settings) in _wanted(options).items():
        if find_topic(clients, name) is None:
            make_topic(
                clients, name, partitions=partitions, replication_factor=options.replication_factor, settings=settings
            )


def _wanted(options: KafkaOptions) -> Mapping[str, tuple[int | None, Mapping[str, object]]]:
    """The number of partitions and the settings of each topic."""
    wanted: dict[str, tuple[int | None, Mapping[str, object]]] = {
        options.tokens: (1, SETTINGS),
        options.topic: (options.partitions, options.topic_settings),
    }
    if options.transaction_topic is not None:
        wanted[options.transaction_topic] = (1, {})
    return wanted


def begin_mark(batch: ProvenBatch) -> tuple[bytes, bytes]:
    """Key and value of BEGIN."""
    return _mark(batch, "BEGIN", None)


def end_mark(batch: ProvenBatch, events: int) -> tuple[bytes, bytes]:
    """Key and value of END."""
    return _mark(batch, "END", events)


def _mark(batch: ProvenBatch, status: str, events: int | None) -> tuple[bytes, bytes]:
    number = str(batch.batch_number)
    collections = None
    if events is not None:
        collections = [{"data_collection": batch.origin.table, "event_count": events}]
    value = {
        "status": status,
        "id": number,
        "ts_ms": time_ns() // 10**6,
        "event_count": events,
        "data_collections": collections,
    }
    return json.dumps({"id": number}).encode(), json.dumps(value, ensure_ascii=False).encode()


def begin_batch(
    clients: KafkaClients, options: KafkaOptions, log: StateTopic, batch: ProvenBatch, encoder: Encoder
) -> BegunOnTopic:
    """Writes down the batch, and keeps every part of an earlier one from writing.

    Raises:
        FencedError: another decision was made meanwhile; look again.
        SupersededError: a later batch was begun.
    """
    with deciding(clients, options) as producer:
        state, topic = log.look() or TopicState(), present_topic(clients, options)
        last, new = state.batch, _started(state, topic, options, batch, encoder)
        destination = f"topic {topic.name} ({topic.id})"
        begun = BegunOnTopic(
            generation=new.generation, partitions=new.partitions, topic=destination, key_schema_id=new.key_schema_id
        )
        if last is not None and _is_begun(last, new, options, batch):
            _refuse_other_parts(state, new, options, batch)
            return begun
        truncation = None
        if last is not None:
            _fence(producer, clients, options, log, last=last, new=new)
        is_first = last is None or last.generation != new.generation
        # A topic may be filled although its state knows no batch: by another program, or before the state was lost.
        is_filled = any(each.rows for each in state.parts.values()) or holds_messages(clients, topic)
        if (batch.begins_anew or is_first) and is_filled:
            truncation = _truncation(encoder, topic) if batch.begins_anew else None
            new = replace(new, starts=tuple(end_offsets(clients, topic)))
        _open(producer, options, batch, new, truncation)
    return begun


def _started(
    state: TopicState, topic: Topic, options: KafkaOptions, batch: ProvenBatch, encoder: Encoder
) -> StartedBatch:
    """The record of the batch once its parts may begin."""
    claim, last = _claim_of(state, options, batch), state.batch
    refuse_other_history(last, batch, topic, options, generation=claim.generation)
    return StartedBatch(
        generation=claim.generation, batch_number=batch.batch_number, state="open", topic_id=topic.id,
        partitions=topic.partitions, identity=batch.identity, starts=() if last is None else last.starts,
        key_types=fixed_types(batch, has_schemas=options.has_schemas), key_schema_id=encoder.key_schema_id,
    )  # fmt: skip


def _is_begun(last: StartedBatch, new: StartedBatch, options: KafkaOptions, batch: ProvenBatch) -> bool:
    """True if an earlier try let the parts begin, or the batch is a replay and the topic has a later one."""
    if batch.is_replay and _order(last) > _order(new):
        return True
    _refuse_superseded(last, new, options)
    is_this = _order(last) == _order(new)
    if is_this or not batch.begins_anew:
        refuse_changed_topic(last, new, options)
    return is_this and last.state != "fencing"


def _refuse_other_parts(state: TopicState, new: StartedBatch, options: KafkaOptions, batch: ProvenBatch) -> None:
    """Raise if the parts of a batch that was begun have other rows now, so that their numbers say nothing of them."""
    cut = state.cut
    is_of_batch = cut is not None and (cut.generation, cut.batch_number) == _order(new)
    if cut is not None and is_of_batch and batch.cut not in ("", cut.digest):
        name = batch.origin.pipeline
        raise TerminalError(
            f"topic {options.topic} may have rows of batch {batch.batch_number} of {name}; its staged files were lost "
            "and made again in other parts, so rows would come twice or be missing: put the files back (storage, "
            f"changelog.path), or load the table again with icefloe reset {name}", batch_number=batch.batch_number,
        )  # fmt: skip


def _fence(
    producer: TransactionProducer, clients: KafkaClients, options: KafkaOptions, log: StateTopic, *,
    last: StartedBatch, new: StartedBatch,
) -> None:  # fmt: skip
    """Keeps the parts of a batch that never ended from writing: an abandoned one, or one of the owner before."""
    is_of_other_owner = last.generation != new.generation
    if last.state == "finished" and not is_of_other_owner:
        return
    if not is_of_other_owner:
        # Parts of an owner before stop at the claim. The record stays theirs, so that each try finds the change.
        _write(producer, options, replace(new, state="fencing"))
    _fence_parts(clients, options, log.look() or TopicState())


def _truncation(encoder: Encoder, topic: Topic) -> bytes:
    message = encoder.truncation()
    if message is None:
        raise TerminalError(
            f"topic {topic.name} has rows from before this load, and sink.envelope: plain cannot say that they are "
            "gone: give sink.topic another name, or use envelope: debezium",
        )  # fmt: skip
    return message


def finish_batch(
    clients: KafkaClients, options: KafkaOptions, log: StateTopic, batch: ProvenBatch, begun: BegunOnTopic,
    deliveries: Sequence[PartDelivery],
) -> None:  # fmt: skip
    """Writes down that all parts of a batch are delivered.

    Raises:
        FencedError: another decision was made meanwhile; look again.
        SupersededError: a later batch was begun.
    """
    with deciding(clients, options) as producer:
        last = (log.look() or TopicState()).batch
        this = (begun.generation, batch.batch_number)
        if last is None or (batch.is_replay and _order(last) > this):
            return
        if _order(last) > this:
            raise _superseded(options, last, batch.batch_number)
        if last.state != "finished":
            producer.begin()
            if options.transaction_topic is not None:
                key, value = end_mark(batch, sum(delivery.documents for delivery in deliveries))
                producer.send(options.transaction_topic, key=key, value=value, headers=[])
            new = replace(last, state="finished")
            producer.send(options.tokens, key=BATCH_KEY.encode(), value=dump_document(new), headers=[])
            producer.commit()


def _refuse_superseded(last: StartedBatch, this: StartedBatch, options: KafkaOptions) -> None:
    """Raise if a later batch was begun."""
    if _order(last) > _order(this):
        raise _superseded(options, last, this.batch_number)


def _superseded(options: KafkaOptions, last: StartedBatch, batch_number: int) -> SupersededError:
    return SupersededError(
        f"batch {batch_number} came too late for topic {options.topic}, which has batch {last.batch_number} already: "
        "nothing of it was changed; let the newer run end", url=options.topic, batch_number=batch_number,
    )  # fmt: skip


def part_role(number: int) -> str:
    """The role of the producers of the parts of a number."""
    return f"part-{number}"


def _order(batch: StartedBatch) -> tuple[int, int]:
    return batch.generation, batch.batch_number


def _claim_of(state: TopicState, options: KafkaOptions, batch: ProvenBatch) -> TopicClaim:
    if state.claim is None:
        raise TerminalError(
            f"topic {options.tokens} does not say whose topic {options.topic} is: it was deleted, or its records were; "
            f"load the table again with icefloe reset {batch.origin.pipeline}",
            owner="",
        )
    refuse_other(state.claim, options, batch.origin)
    return state.claim


def _fence_parts(clients: KafkaClients, options: KafkaOptions, state: TopicState) -> None:
    """Ends the producers of all part numbers that were ever used. Later ones see the record of this batch."""
    for number in sorted(state.parts):
        with TransactionProducer(clients, options, part_role(number)):
            pass


def _write(producer: TransactionProducer, options: KafkaOptions, record: StartedBatch) -> None:
    producer.commit_records(options.tokens, [(BATCH_KEY, dump_document(record))])


def _open(
    producer: TransactionProducer, options: KafkaOptions, batch: ProvenBatch, record: StartedBatch,
    truncation: bytes | None,
) -> None:  # fmt: skip
    """Lets the parts begin; in the same transaction, each partition learns that a load begins again."""
    producer.begin()
    if truncation is not None:
        for partition in range(record.partitions):
            producer.send(options.topic, key=None, value=truncation, headers=[], partition=partition)
    if options.transaction_topic is not None:
        key, value = begin_mark(batch)
        producer.send(options.transaction_topic, key=key, value=value, headers=[])
    if batch.cut:
        cut = BatchCut(generation=record.generation, batch_number=record.batch_number, digest=batch.cut)
        producer.send(options.tokens, key=CUT_KEY.encode(), value=dump_document(cut), headers=[])
    producer.send(options.tokens, key=BATCH_KEY.encode(), value=dump_document(record), headers=[])
    producer.commit()
