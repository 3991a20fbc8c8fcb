"""The place of all decisions about a topic as a whole: one transactional id, whose newest producer decides alone."""

from collections.abc import Mapping

from icefloe.documents import dump_document
from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.kafka.kafka_clients import KafkaClients
from icefloe.sinks.kafka.kafka_options import KafkaOptions
from icefloe.sinks.kafka.state_topic import SETTINGS, StateTopic
from icefloe.sinks.kafka.topic_state import CLAIM_KEY, TopicClaim, TopicState
from icefloe.sinks.kafka.topics import find_topic, holds_messages, make_topic
from icefloe.sinks.kafka.transaction import TransactionProducer


class TopicOwnedError(TerminalError):
    """The topic belongs to another pipeline, or to another start of this one."""

    topic: str
    owner: str


def deciding(clients: KafkaClients, options: KafkaOptions) -> TransactionProducer:
    """The producer that decides. It fences whoever was about to decide, so decisions follow one another."""
    return TransactionProducer(clients, options, "decides")


def check_topics(clients: KafkaClients, options: KafkaOptions) -> None:
    """Proves that the cluster answers, and that the topics are there or may be made. Nothing is written.

    Raises:
        KafkaAnswerError: this user lacks a right, or the topics cannot be made as the options say.
        KafkaSilentError: no answer.
    """
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
    """Raise if the topic is another origin's, or holds messages and is nobody's.

    Raises:
        TopicOwnedError: it does.
    """
    topic = find_topic(clients, options.topic)
    is_filled = topic is not None and holds_messages(clients, topic)
    # In this order: whoever fills the topic meanwhile has claimed it before.
    state = log.look() or TopicState()
    if state.claim is not None:
        refuse_other(state.claim, options, origin)
    elif is_filled:
        raise TopicOwnedError(
            f"topic {options.topic} holds messages, and topic {options.tokens} does not say whose they are: if this "
            f"checkpoint of pipeline {origin.pipeline} has delivered them, load the table again with icefloe reset "
            f"{origin.pipeline}; otherwise give it a topic of its own, or run once with --take-over to keep this one",
            topic=options.topic, owner="",
        )  # fmt: skip


def refuse_other(claim: TopicClaim, options: KafkaOptions, origin: Origin) -> None:
    """Raise if a claim is another origin's."""
    if claim.owner != origin.owner:
        raise TopicOwnedError(
            f"topic {options.topic} belongs to pipeline {claim.pipeline} for table {claim.table} with the checkpoint "
            f"{claim.owner}, as topic {options.tokens} says, not to checkpoint {origin.owner} of pipeline "
            f"{origin.pipeline}; give each pipeline, and each new start of one, a sink.topic of its own",
            topic=options.topic, owner=claim.owner,
        )  # fmt: skip


def claim_topic(
    clients: KafkaClients, options: KafkaOptions, log: StateTopic, origin: Origin, *, takes_over: bool
) -> None:
    """Makes the topics that are missing, and writes down the owner.

    Raises:
        TopicOwnedError: another origin's, and ``takes_over`` is False.
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
