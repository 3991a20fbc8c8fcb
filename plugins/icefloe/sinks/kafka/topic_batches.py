"""A batch as a whole: begun before its parts, finished after them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from time import time_ns

from icefloe.documents import dump_document
from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.kafka.begun_on_topic import BegunOnTopic
from icefloe.sinks.kafka.changed_topic import (
    TopicChangedError,
    present_topic,
    refuse_changed_topic,
    refuse_other_history,
)
from icefloe.sinks.kafka.encoder import Encoder
from icefloe.sinks.kafka.kafka_clients import KafkaClients
from icefloe.sinks.kafka.kafka_options import KafkaOptions
from icefloe.sinks.kafka.row_keys import fixed_types
from icefloe.sinks.kafka.state_topic import StateTopic
from icefloe.sinks.kafka.topic_owner import TopicOwnedError, deciding, refuse_other
from icefloe.sinks.kafka.topic_state import BATCH_KEY, CUT_KEY, BatchCut, StartedBatch, TopicClaim, TopicState
from icefloe.sinks.kafka.topics import Topic, end_offsets, holds_messages
from icefloe.sinks.kafka.transaction import TransactionProducer
from icefloe.sinks.sink import PartDelivery, SupersededError


def begin_mark(batch: ProvenBatch) -> tuple[bytes, bytes]:
    """Key and value of BEGIN."""
    return _mark(batch, "BEGIN", None)


def end_mark(batch: ProvenBatch, events: int) -> tuple[bytes, bytes]:
    """Key and value of END.

    Args:
        batch: the batch.
        events: that all its parts sent, without tombstones.
    """
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


class OtherPartsError(TerminalError):
    """The batch is divided into other parts than those that the topic has some of."""

    topic: str
    batch_number: int


def begin_batch(
    clients: KafkaClients, options: KafkaOptions, log: StateTopic, batch: ProvenBatch, encoder: Encoder
) -> BegunOnTopic:
    """Writes down the batch, and keeps every part of an earlier one from writing.

    Raises:
        FencedError: another decision was made meanwhile; look again.
        SupersededError: a later batch was begun.
        TopicChangedError: the topic has other partitions or another key, or was made again.
        OtherPartsError: the batch was begun in other parts.
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
    """True if an earlier try let the parts begin, or the batch is a replay and the topic has a later one.

    A try that only fenced has begun nothing: truncation and offsets of a load come with the end of fencing.

    Raises:
        SupersededError: a later batch was begun, and this is no replay.
        TopicChangedError: the topic has other partitions or another key, or was made again.
    """
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
        raise OtherPartsError(
            f"topic {options.topic} may have rows of batch {batch.batch_number} of {name}; its staged files were lost "
            "and made again in other parts, so rows would come twice or be missing: put the files back (storage, "
            f"changelog.path), or load the table again with icefloe reset {name}",
            topic=options.topic, batch_number=batch.batch_number,
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
        raise TopicChangedError(
            f"topic {topic.name} has rows from before this load, and sink.envelope: plain cannot say that they are "
            "gone: give sink.topic another name, or use envelope: debezium",
            topic=topic.name, partitions=topic.partitions,
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
        raise TopicOwnedError(
            f"topic {options.tokens} does not say whose topic {options.topic} is: it was deleted, or its records were; "
            f"load the table again with icefloe reset {batch.origin.pipeline}", topic=options.topic, owner="",
        )  # fmt: skip
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
