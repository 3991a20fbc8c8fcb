"""Offsets of partitions: asked again while one has no leader, and where reading begins."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.kafka.kafka_clients import FencedError, KafkaRequest, refusals_of
from icefloe.sinks.kafka.topics import Topic, lacks_oldest, may_be_compacted, most_bytes, offsets, retained_messages

Answers: TypeAlias = Callable[[TopicPartition], int | KafkaError]
TOPIC = Topic(name="flights", id="1", partitions=1)
TWO = Topic(name="flights", id="1", partitions=2)


def clients(answer_of: Answers, *, seconds: float = 5, consumer: Any = None) -> Any:
    """Clients of a cluster that gives an offset or an error for each partition."""

    def list_offsets(asked: dict[TopicPartition, Any], **_: object) -> dict[TopicPartition, Future[Any]]:
        answers: dict[TopicPartition, Future[Any]] = {place: Future() for place in asked}
        for place, answer in answers.items():
            found = answer_of(place)
            if isinstance(found, KafkaError):
                answer.set_exception(KafkaException(found))
            else:
                answer.set_result(SimpleNamespace(offset=found))
        return answers

    admin = SimpleNamespace(list_offsets=list_offsets)

    def answering(_: object, request: KafkaRequest) -> AbstractContextManager[None]:
        return refusals_of(request)

    return SimpleNamespace(admin=admin, seconds=seconds, answering=answering, consumer=lambda: consumer)


def one_after_another(*codes: int) -> Answers:
    """Answers with these errors, then offset 7."""
    left = list(codes)
    return lambda _: KafkaError(left.pop(0)) if left else 7


def test_a_partition_without_a_leader_is_asked_again() -> None:
    moving = one_after_another(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
    assert offsets(clients(moving), TOPIC) == [7]


def test_a_partition_that_stays_without_a_leader_is_an_error_that_may_pass() -> None:
    with pytest.raises(TransientError, match="NOT_LEADER_FOR_PARTITION"):
        offsets(clients(lambda _: KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION), seconds=0.1), TOPIC)


def test_an_answer_for_good_is_not_asked_for_again() -> None:
    with pytest.raises(TerminalError):
        offsets(clients(one_after_another(KafkaError.TOPIC_AUTHORIZATION_FAILED)), TOPIC)


def test_a_fence_that_the_client_raises_bare_is_a_fence() -> None:
    request = KafkaRequest(doing="send", topic="flights", right="Write")
    with pytest.raises(FencedError), refusals_of(request):
        raise KafkaError(KafkaError._FENCED, "fenced by newer producer instance", fatal=True)


def test_a_partition_that_was_added_after_a_load_is_read_from_its_beginning() -> None:
    assigned: list[tuple[int, int]] = []
    consumer = SimpleNamespace(
        assign=lambda places: assigned.extend((place.partition, place.offset) for place in places), close=lambda: None
    )
    ends = (7, 0)
    empty = clients(lambda place: ends[place.partition], consumer=consumer)
    assert list(retained_messages(empty, TWO, starts=(7,))) == []
    assert assigned == [(0, 7), (1, 0)]


@pytest.mark.parametrize(
    ("firsts", "starts", "lacks"),
    [((0, 0), (), False), ((0, 4), (), True), ((7, 5), (7, 5), False), ((7, 6), (7, 5), True), ((9, 0), (9,), False)],
)
def test_retention_has_deleted_messages_behind_the_start_of_the_load(
    firsts: tuple[int, int], starts: tuple[int, ...], lacks: bool
) -> None:
    assert lacks_oldest(clients(lambda place: firsts[place.partition]), TWO, starts) is lacks


@pytest.mark.parametrize("listed", [{}, {"max.message.bytes": None, "cleanup.policy": None}])
def test_settings_that_a_broker_does_not_list_are_unknown(listed: dict[str, str | None]) -> None:
    asked, answer = clients(lambda _: 7), Future[Any]()
    answer.set_result({name: SimpleNamespace(value=value) for name, value in listed.items()})
    asked.admin.describe_configs = lambda resources, **_: dict.fromkeys(resources, answer)
    assert (most_bytes(asked, "flights"), may_be_compacted(asked, "flights")) == (2**20, True)
