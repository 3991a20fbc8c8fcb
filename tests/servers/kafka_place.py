"""A topic of a test's own on the real broker, and the sinks that deliver to it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from demo.servers.kafka import Kafka
from icefloe.sinks.kafka.kafka_sink import KafkaSink, open_kafka_sink
from icefloe.sinks.sink import PartDelivery
from icefloe.storage.location import open_store
from sinks.kafka.staged_changes import FLIGHTS, LOAD, Staged
from support.servers.kafka_reader import ReadMessage, read_topic

NUMBERS: Iterator[int] = count()


@dataclass(kw_only=True)
class KafkaPlace:
    """Opens sinks of one topic; each is one more process as far as the broker knows."""

    kafka: Kafka
    topic: str = field(default_factory=lambda: f"flights-{next(NUMBERS)}")
    options: dict[str, Any] = field(default_factory=dict)
    opened: list[KafkaSink] = field(default_factory=list)

    def sink(self, **options: Any) -> KafkaSink:
        given = {"topic": self.topic, "bootstrap_servers": self.kafka.bootstrap_servers, "partitions": 2}
        sink = open_kafka_sink({**given, **self.options, **options}, connection={}, open_store=open_store)
        self.opened.append(sink)
        return sink

    def claimed(self, **options: Any) -> KafkaSink:
        sink = self.sink(**options)
        sink.claim(FLIGHTS)
        return sink

    def loaded(self, **options: Any) -> KafkaSink:
        """A sink that has delivered `LOAD`."""
        sink = self.claimed(**options)
        deliver_all(sink, LOAD)
        return sink

    def close(self) -> None:
        for sink in self.opened:
            sink.close()

    def add_partitions(self, number: int) -> None:
        """Gives the topic more partitions, as an administrator does."""
        for done in self._admin.create_partitions([NewPartitions(self.topic, number)]).values():
            done.result()
        self._wait_for_partitions(number)

    def delete(self) -> None:
        """Deletes the topic."""
        for done in self._admin.delete_topics([self.topic]).values():
            done.result()
        self._wait_for_partitions(0)

    def make_again(self) -> None:
        """Deletes the topic and makes one of the same name."""
        self.delete()
        for done in self._admin.create_topics([NewTopic(self.topic, 2, 1)]).values():
            done.result()
        self._wait_for_partitions(2)

    def messages(self) -> list[ReadMessage]:
        return read_topic(self.kafka.bootstrap_servers, self.topic)

    def events(self) -> list[tuple[Any, ...]]:
        """Operation, row before and row after of each event, by partition and offset."""
        values = [json.loads(message.value) for message in self.messages() if message.value is not None]
        images = ("before", "after")
        return [(value["op"], *(value[each] and value[each]["id"] for each in images)) for value in values]

    def ids(self) -> list[int]:
        """The ids of rows that came, sorted."""
        return sorted(after for _, _, after in self.events() if after is not None)

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})

    def _wait_for_partitions(self, number: int) -> None:
        """The controller decides on topics; the broker, which clients ask, hears of it a moment later."""
        while True:
            found = self._admin.list_topics().topics.get(self.topic)
            if len(found.partitions if found else ()) == number:
                return


def kafka_place(kafka: Kafka) -> Iterator[KafkaPlace]:
    """A topic of one test."""
    place = KafkaPlace(kafka=kafka)
    yield place
    place.close()


def deliver_all(sink: KafkaSink, staged: Staged) -> list[PartDelivery]:
    """A batch from its beginning to its end."""
    begun = sink.begin(staged.batch)
    deliveries = [sink.deliver(staged.batch, begun, part) for part in staged.staged]
    sink.finish(staged.batch, begun, deliveries)
    return deliveries
