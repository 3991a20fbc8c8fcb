"""Clients of a broker whose calls are counted, and one of them struck by a fault."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from icefloe.sinks.kafka.kafka_clients import KafkaClients, KafkaOptions
from icefloe.sinks.kafka.kafka_sink import KafkaSink
from icefloe.testing.processes import OutwardCalls

PRODUCER = ("init_transactions", "begin_transaction", "flush", "commit_transaction", "abort_transaction", "list_topics")
"""Sending goes out by itself, in another thread: a process that ends before `flush` has sent some of it."""
MOST_BYTES = 20_000
ADMIN = ("describe_topics", "create_topics", "list_offsets")


@dataclass(kw_only=True)
class WatchedClients(KafkaClients):
    calls: OutwardCalls = field(default_factory=OutwardCalls)

    @property
    def admin(self) -> Any:
        return self.calls.watch(super().admin, only=ADMIN)

    def producer(self, *arguments: Any, **named: Any) -> Any:
        producer = super().producer(*arguments, **named)

        def drop() -> None:
            # Producers of this process that are closed have nothing left to send.
            with suppress(RuntimeError):
                producer.purge()

        return self.calls.watch(producer, only=PRODUCER, when_killed=drop)

    def consumer(self) -> Any:
        return self.calls.watch(super().consumer(), only=("assign",))


def watched_sink(brokers: str, topic: str, calls: OutwardCalls) -> KafkaSink:
    """A sink of two partitions, with transactions of two rows and small messages."""
    options = KafkaOptions.of(
        {"topic": topic, "bootstrap_servers": brokers, "partitions": 2, "transaction_rows": 2,
         "transaction_seconds": 10, "topic_settings": {"max.message.bytes": MOST_BYTES}}
    )  # fmt: skip
    made = KafkaClients.of(options, {})
    clients = WatchedClients(configuration=made.configuration, registry={}, seconds=30, calls=calls)
    return KafkaSink(options, clients)
