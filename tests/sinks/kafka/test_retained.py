"""A topic is read back partition by partition."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from icefloe.sinks.kafka.retained import lacks_oldest, retained_messages
from icefloe.sinks.kafka.topics import Topic


class Consumer:
    """A consumer of a topic without messages."""

    def __init__(self) -> None:
        self.assigned: list[tuple[int, int]] = []

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned += [(place.partition, place.offset) for place in places]

    def close(self) -> None:
        pass


def clients(consumer: Consumer, *ends: int) -> Any:
    """Clients of a cluster whose topic has these offsets, whichever are asked for."""

    def list_offsets(asked: dict[TopicPartition, Any], **_: object) -> dict[TopicPartition, Future[Any]]:
        answers: dict[TopicPartition, Future[Any]] = {place: Future() for place in asked}
        for place, answer in answers.items():
            answer.set_result(SimpleNamespace(offset=ends[place.partition]))
        return answers

    admin = SimpleNamespace(list_offsets=list_offsets)
    return SimpleNamespace(admin=admin, seconds=5, answered=lambda _: None, consumer=lambda: consumer)


def test_a_partition_that_was_added_after_a_load_is_read_from_its_beginning() -> None:
    consumer = Consumer()
    topic = Topic(name="flights", id="1", partitions=2)
    assert list(retained_messages(clients(consumer, 7, 0), topic, starts=(7,))) == []
    assert consumer.assigned == [(0, 7), (1, 0)]


@pytest.mark.parametrize(
    ("firsts", "starts", "lacks"),
    [((0, 0), (), False), ((0, 4), (), True), ((7, 5), (7, 5), False), ((7, 6), (7, 5), True), ((9, 0), (9,), False)],
)
def test_retention_has_deleted_what_is_behind_the_start_of_the_load(
    firsts: tuple[int, int], starts: tuple[int, ...], lacks: bool
) -> None:
    topic = Topic(name="flights", id="1", partitions=2)
    assert lacks_oldest(clients(Consumer(), *firsts), topic, starts) is lacks
