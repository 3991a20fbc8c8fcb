"""A topic that is not what it was: missing or made again, restored, taken over, or with other partitions or keys."""

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.kafka.kafka_clients import KafkaClients
from icefloe.sinks.kafka.kafka_options import KafkaOptions
from icefloe.sinks.kafka.topic_state import StartedBatch
from icefloe.sinks.kafka.topics import Topic, find_topic


class TopicChangedError(TerminalError):
    """The topic is not what it was when the pipeline began: events of one key would lose their order, or are gone."""

    topic: str
    partitions: int


def present_topic(clients: KafkaClients, options: KafkaOptions) -> Topic:
    """The topic as it is now.

    Raises:
        TopicChangedError: it is missing.
    """
    topic = find_topic(clients, options.topic)
    if topic is None:
        raise topic_missing(options)
    return topic


def topic_missing(options: KafkaOptions) -> TopicChangedError:
    """The error of a topic that is there no more."""
    return TopicChangedError(
        f"topic {options.topic} is missing: it was deleted with the changes in it; make the pipeline begin again "
        "with icefloe reset and another sink.topic", topic=options.topic, partitions=0,
    )  # fmt: skip


def topic_of_batches(clients: KafkaClients, options: KafkaOptions, last: StartedBatch) -> Topic:
    """The topic that holds a batch.

    Raises:
        TopicChangedError: it is missing, or was made again.
    """
    topic = present_topic(clients, options)
    if topic.id != last.topic_id:
        raise _made_again(options, last, partitions=topic.partitions)
    return topic


def refuse_other_history(
    last: StartedBatch | None, batch: ProvenBatch, topic: Topic, options: KafkaOptions, *, generation: int
) -> None:
    """Raise if the topic lacks batches before this one, or has those of another owner that this one leaves there.

    Args:
        last: the batch that the topic has last.
        batch: the next one.
        topic: the topic as it is now.
        options: of the sink.
        generation: of the present claim.

    Raises:
        TopicChangedError: it does.
    """
    if last is None and batch.continues:
        raise TopicChangedError(
            f"topic {options.topic} knows nothing of pipeline {batch.origin.pipeline}, and batch "
            f"{batch.batch_number} goes on where others ended: these are other brokers, or topic {options.tokens} "
            "was made again; correct sink.bootstrap_servers, or load the table again with icefloe reset",
            topic=options.topic, partitions=topic.partitions,
        )  # fmt: skip
    is_of_owner_before = last is not None and last.generation != generation
    if is_of_owner_before and not (batch.begins_anew or batch.is_replay):
        raise TopicChangedError(
            f"topic {options.topic} was taken over from another pipeline and has its changes, and batch "
            f"{batch.batch_number} of pipeline {batch.origin.pipeline} replaces nothing: run icefloe reset "
            f"{batch.origin.pipeline}, whose load does", topic=options.topic, partitions=topic.partitions,
        )  # fmt: skip
    before = batch.delivered_before
    if last is not None and before is not None and last.batch_number < before:
        name = batch.origin.pipeline
        raise TopicChangedError(
            f"topic {options.topic} had batch {before} of {name}, and topic {options.tokens} says that batch "
            f"{last.batch_number} was the last: both were restored from a backup, or these are other brokers; bring "
            f"what is missing by icefloe deliver {name} --batches {last.batch_number + 1}-{before}, or load the table "
            "again with icefloe reset",
            topic=options.topic, partitions=topic.partitions,
        )  # fmt: skip


def refuse_changed_topic(last: StartedBatch, new: StartedBatch, options: KafkaOptions) -> None:
    """Raise if a batch would not go on in the topic, or in the partitions of its keys, that the last one used.

    Raises:
        TopicChangedError: it would not.
    """
    if last.topic_id != new.topic_id:
        raise _made_again(options, last, partitions=new.partitions)
    if last.partitions != new.partitions:
        raise TopicChangedError(
            f"topic {options.topic} has {new.partitions} partitions, and had {last.partitions} in batch "
            f"{last.batch_number}: keys would move, and their changes lose their order; load the table again with "
            "icefloe reset, or deliver to another sink.topic", topic=options.topic, partitions=new.partitions,
        )  # fmt: skip
    if last.identity != new.identity:
        raise TopicChangedError(
            f"the key of topic {options.topic} is {', '.join(new.identity) or 'missing'}, and was "
            f"{', '.join(last.identity) or 'missing'} in batch {last.batch_number}: keys would move, and their changes "
            "lose their order; load the table again with icefloe reset",
            topic=options.topic, partitions=new.partitions,
        )  # fmt: skip
    promoted = {name: kind for name, kind in last.key_types.items() if new.key_types.get(name) != kind}
    if promoted:
        were = ", ".join(f"{name}, which was {kind}" for name, kind in promoted.items())
        raise TopicChangedError(
            f"the type of a column of the key of topic {options.topic} has changed since batch {last.batch_number} "
            f"({were}): keys would move, and their changes lose their order; load the table again with icefloe reset",
            topic=options.topic, partitions=new.partitions,
        )  # fmt: skip
    # Messages of an owner before count no longer.
    if last.generation == new.generation and last.key_schema_id != new.key_schema_id:
        raise key_schema_changed(options, new.key_schema_id, last.key_schema_id, partitions=new.partitions)


def key_schema_changed(
    options: KafkaOptions, now: int | None, before: int | None, *, partitions: int
) -> TopicChangedError:
    """The error of a registry that gives the schema of keys another id."""
    return TopicChangedError(
        f"the schema registry gives the keys of topic {options.topic} the schema id {now}, and gave them {before}: "
        "keys would move, and their changes lose their order; correct sink.schema_registry, restore the registry with "
        "its ids, or load the table again with icefloe reset", topic=options.topic, partitions=partitions,
    )  # fmt: skip


def _made_again(options: KafkaOptions, last: StartedBatch, *, partitions: int) -> TopicChangedError:
    return TopicChangedError(
        f"topic {options.topic} was deleted and made again since batch {last.batch_number}, so its earlier changes are "
        "gone: load the table again with icefloe reset", topic=options.topic, partitions=partitions,
    )  # fmt: skip
