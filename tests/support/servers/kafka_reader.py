"""A plain consumer of committed messages, as any reader of a topic is one."""

from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

__all__ = ["ReadMessage", "read_topic"]


@dataclass(frozen=True, kw_only=True)
class ReadMessage:
    """A message with its place."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]


def read_topic(bootstrap_servers: str, topic: str, *, isolation_level: str = "read_committed") -> list[ReadMessage]:
    """All messages that a topic holds now, by partition and offset."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers, "group.id": "reader", "isolation.level": isolation_level,
        "enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 20,
    }  # fmt: skip
    consumer = Consumer(settings)
    try:
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found, ended = [], set[int]()
        while len(ended) < len(partitions):
            for message in consumer.consume(10_000, timeout=0.1):
                error = message.error()
                if error is None:
                    found.append(_read(message))
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(message.partition())
    finally:
        consumer.close()
    return sorted(found, key=lambda message: (message.partition, message.offset))


def _read(message: Any) -> ReadMessage:
    return ReadMessage(
        partition=message.partition(), offset=message.offset(), key=message.key(), value=message.value(),
        headers=dict(message.headers() or []),
    )  # fmt: skip
