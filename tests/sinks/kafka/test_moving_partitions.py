"""A partition without a leader, as right after its topic was made, is asked again."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.kafka.kafka_clients import FencedError, KafkaRequest, refusals_of
from icefloe.sinks.kafka.topics import Topic, end_offsets

TOPIC = Topic(name="flights", id="1", partitions=1)


def clients(*answers: int | None, seconds: float = 5) -> Any:
    """Clients whose cluster gives these answers one after another: an error by its code, or offset 7."""
    left = list(answers)

    def list_offsets(asked: dict[TopicPartition, Any], **_: object) -> dict[TopicPartition, Future[Any]]:
        answer: Future[Any] = Future()
        code = left.pop(0) if len(left) > 1 else left[0]
        if code is None:
            answer.set_result(SimpleNamespace(offset=7))
        else:
            answer.set_exception(KafkaException(KafkaError(code)))
        return dict.fromkeys(asked, answer)

    return SimpleNamespace(admin=SimpleNamespace(list_offsets=list_offsets), seconds=seconds, answered=lambda _: None)


def test_a_partition_without_a_leader_is_asked_again() -> None:
    moving = KafkaError.NOT_LEADER_FOR_PARTITION
    assert end_offsets(clients(moving, KafkaError.LEADER_NOT_AVAILABLE, None), TOPIC) == [7]


def test_a_partition_that_stays_without_a_leader_is_an_error_that_may_pass() -> None:
    with pytest.raises(TransientError, match="NOT_LEADER_FOR_PARTITION"):
        end_offsets(clients(KafkaError.NOT_LEADER_FOR_PARTITION, seconds=0.1), TOPIC)


def test_an_answer_for_good_is_not_asked_for_again() -> None:
    with pytest.raises(TerminalError):
        end_offsets(clients(KafkaError.TOPIC_AUTHORIZATION_FAILED, None), TOPIC)


def test_a_fence_that_the_client_raises_bare_is_a_fence() -> None:
    request = KafkaRequest(doing="send", topic="flights", right="Write")
    with pytest.raises(FencedError), refusals_of(request):
        raise KafkaError(KafkaError._FENCED, "fenced by newer producer instance", fatal=True)
