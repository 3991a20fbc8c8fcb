"""The suite for sinks of other packages, over the real broker."""

from collections.abc import Iterable, Iterator
from random import Random

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from demo.servers.kafka import Kafka
from icefloe.sinks.kafka.kafka_sink import KafkaSink
from icefloe.testing.conformance import SinkConformance
from icefloe.testing.processes import OutwardCalls
from servers.kafka_place import NUMBERS
from servers.watched_kafka import MOST_BYTES, watched_sink

pytestmark = [pytest.mark.servers, pytest.mark.extended, pytest.mark.timeout(1800)]


class TestKafkaSink(SinkConformance):
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

    def lost_connection(self) -> Exception:
        return KafkaException(KafkaError(KafkaError._TRANSPORT))

    def places(self, calls: int) -> Iterable[int]:
        """A random call by the name of the case: each call takes two seconds."""
        return [Random(self.case).randrange(calls)] if calls else []
