"""The suite for sinks of other packages, over the real broker.

With ``ICEFLOE_EVERY_PLACE=1`` each walk over the outward calls is cut into tests that share nothing: every test has its
own topics and its own timeout.
"""

import json
import os
from collections.abc import Iterable, Iterator
from random import Random

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from icefloe.sinks.kafka.kafka_sink import KafkaSink
from icefloe.testing.conformance import SinkConformance
from icefloe.testing.interruption_cases import InterruptionCases
from icefloe.testing.processes import OutwardCalls
from servers.kafka_place import NUMBERS
from servers.one_history import OneHistory
from servers.watched_kafka import MOST_BYTES, watched_sink
from support.servers.kafka import Kafka
from support.tiers import EVERY_PLACE, stride

pytestmark = [pytest.mark.servers, pytest.mark.extended, pytest.mark.walk, pytest.mark.timeout(1800)]

PARTS = 12 if os.environ.get(EVERY_PLACE) == "1" else 1
"""Tests that walk the calls of one case: each strikes every twelfth call."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if PARTS > 1 and hasattr(InterruptionCases, metafunc.function.__name__):
        parts = range(PARTS)
        metafunc.parametrize("_part", parts, indirect=True, ids=[f"part-{part}-of-{PARTS}" for part in parts])


class TestKafkaSink(OneHistory, SinkConformance):
    @pytest.fixture(autouse=True)
    def _part(self, request: pytest.FixtureRequest) -> None:
        self.part: int | None = getattr(request, "param", None)

    @pytest.fixture(autouse=True)
    def _broker(self, kafka: Kafka, request: pytest.FixtureRequest) -> Iterator[None]:
        self.kafka, self.case = kafka, request.node.name
        self.topics: list[str] = []
        yield
        if self.topics:
            # A walk makes hundreds of topics, which would slow the broker down for the tests after it.
            AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).delete_topics(self.topics)

    def new_destination(self) -> str:
        self.topics.append(f"conformance-{next(NUMBERS)}")
        return self.topics[-1]

    def open_sink(self, destination: str, calls: OutwardCalls) -> KafkaSink:
        return watched_sink(self.kafka.bootstrap_servers, destination, calls)

    def poison_row(self, key: int) -> dict[str, str]:
        return {"word": str(key) * MOST_BYTES}

    def foreign_write(self, destination: str, number: int) -> bool:
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap_servers})
        producer.produce(destination, json.dumps({"op": "c"}), f"foreign-{number}")
        assert producer.flush() == 0
        return True

    def lost_connection(self) -> Exception:
        return KafkaException(KafkaError(KafkaError._TRANSPORT))

    def places(self, calls: int) -> Iterable[int]:
        """A random call by the name of the case. Each call takes two seconds; test_kafka_kills.py strikes more."""
        if self.part is None:
            step = stride(calls)
            return range(Random(self.case).randrange(step), calls, step)
        # A case of pairs of calls takes the pairs of each part: all pairs would take hours.
        return range(self.part, calls, PARTS)
