"""A login that is refused ends a task at once, if it is not one broker that refuses for a moment."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.kafka import kafka_clients, topics
from icefloe.sinks.kafka.kafka_clients import KafkaClients
from icefloe.sinks.kafka.topics import find_topic

LOGIN, LOST, ALL_DOWN = KafkaError._AUTHENTICATION, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN


@dataclass
class Cluster:
    """A cluster whose answer comes after some looks, and the clock; each look takes a second.

    Attributes:
        errors: codes of the errors that the client tells at each look.
    """

    looks: int
    errors: Sequence[Sequence[int]] = ()
    seconds: float = 0.0
    clients: KafkaClients = field(init=False)

    def __post_init__(self) -> None:
        self.clients = KafkaClients(configuration={}, registry={}, seconds=10)
        admin: Any = SimpleNamespace(poll=self.poll, describe_topics=lambda *_, **__: {"flights": Answer(self)})
        self.clients._admin = admin

    def poll(self, _: float) -> None:
        for code in self.errors[0] if self.errors else ():
            self.clients._note(KafkaError(code))
        self.errors = self.errors[1:]

    def ask(self, looks: int | None = None, errors: Sequence[Sequence[int]] = ()) -> bool:
        self.looks, self.errors = self.looks if looks is None else looks, errors or self.errors
        return find_topic(self.clients, "flights") is not None


class Answer(Future[Any]):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.cluster = cluster

    def result(self, timeout: float | None = None) -> Any:  # noqa: ARG002 - a look takes a second
        if self.cluster.looks == 0:
            return SimpleNamespace(topic_id="id", partitions=[])
        self.cluster.looks -= 1
        self.cluster.seconds += 1
        raise TimeoutError


def cluster(monkeypatch: pytest.MonkeyPatch, looks: int, *errors: Sequence[int]) -> Cluster:
    made = Cluster(looks=looks, errors=errors)
    for module in (kafka_clients, topics):
        monkeypatch.setattr(module, "monotonic", lambda: made.seconds)
    return made


@pytest.mark.parametrize("told", [[LOGIN], [LOGIN, ALL_DOWN]])
def test_a_broker_that_refuses_a_login_for_a_moment_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, told: Sequence[int]
) -> None:
    assert cluster(monkeypatch, 2, told).ask()


def test_a_broker_that_refuses_a_login_while_others_are_slow_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cluster(monkeypatch, 9, [LOGIN]).ask()


def test_a_login_that_all_brokers_refuse_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = cluster(monkeypatch, 99, [LOGIN, ALL_DOWN])
    with pytest.raises(TerminalError, match="Kafka refused the login"):
        asked.ask()
    assert asked.seconds == 3


def test_a_login_that_is_refused_while_other_brokers_are_down_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = cluster(monkeypatch, 99, [LOST, LOGIN, ALL_DOWN])
    with pytest.raises(TransientError, match="Kafka could not describe topics"):
        asked.ask()
    assert asked.seconds > 10


def test_a_login_that_is_refused_is_forgotten_with_the_next_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = cluster(monkeypatch, 1, [LOGIN, ALL_DOWN])
    assert asked.ask()
    assert asked.ask(looks=9)
