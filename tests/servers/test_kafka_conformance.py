"""The suite for sinks of other packages, over the real broker."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from icefloe.sinks.dead_letters import DeadLetterFolder
from icefloe.sinks.kafka.kafka_sink import KafkaSink
from icefloe.storage.location import open_store
from icefloe.testing import DeliverySinkConformance, OutwardCalls
from servers.kafka_place import NUMBERS
from servers.watched_kafka import MOST_BYTES, watched_sink
from support.servers.kafka import Kafka
from support.tiers import EVERY_PLACE

pytestmark = [pytest.mark.servers, pytest.mark.extended, pytest.mark.timeout(1800)]


class TestKafkaSink(DeliverySinkConformance):
    @pytest.fixture(autouse=True)
    def _broker(self, kafka: Kafka, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        self.kafka, self.case = kafka, request.node.name
        self.folder = tmp_path

    def new_destination(self) -> str:
        return f"conformance-{next(NUMBERS)}"

    def open_sink(self, destination: str, calls: OutwardCalls) -> KafkaSink:
        # A folder of letters belongs to one pipeline, as a topic does: destinations must not share one.
        letters = DeadLetterFolder(open_store((self.folder / destination).as_uri()), limit=10)
        return watched_sink(self.kafka.bootstrap_servers, destination, calls, letters=letters)

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
        if not os.environ.get(EVERY_PLACE):
            return [Random(self.case).randrange(calls)]
        # This case takes pairs of calls: all of them would take hours.
        return range(0, calls, 6 if "after_another_died" in self.case else 1)
