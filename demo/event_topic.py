"""A topic that the demo delivers to, and what a plain consumer reads from it."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from demo.destination import Destination
from demo.flights_table import TableChange
from demo.progress import Progress
from demo.servers.kafka import Kafka

__all__ = ["EventTopic", "differences"]

_TOPIC: Final = "flights"
_WAIT_SECONDS: Final = 10
_NAMES: Final = {"r": "read", "c": "created", "u": "updated", "d": "deleted"}
_SHOWN: Final = ("flight_id", "carrier", "flight", "arr_delay")


class EventTopic(Destination[Kafka]):
    """Kafka with the topic ``flights``; a context manager.

    Args:
        folder: of the broker's data and log.
    """

    pipeline = "flights_topic.yaml"
    title = "Kafka"

    def __init__(self, folder: Path) -> None:
        super().__init__(Kafka(folder=folder / "kafka"))

    @property
    def connections(self) -> Mapping[str, str]:
        """See `Destination`."""
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": self._server.bootstrap_servers}}
        return {"AIRFLOW_CONN_BROKER": json.dumps(connection)}

    def show(self, progress: Progress, changes: Sequence[TableChange], rows: int) -> list[str]:
        """Says what a consumer reads; returns a sentence for each kind of event that is missing or there twice."""
        examples: dict[str, Mapping[str, Any]] = {}
        counts: Counter[str] = Counter()
        for event in self._events():
            counts[event["op"]] += 1
            examples.setdefault(event["op"], event)
        said = ", ".join(f"{counts[op]:,} {name}" for op, name in _NAMES.items())
        progress.say(f"\n{counts.total():,} events in the topic {_TOPIC}: {said}, for example:\n")
        for op in _NAMES:
            if op in examples:
                progress.say(f"  {_line(examples[op])}")
        return differences(counts, changes, rows)

    def _events(self) -> Iterator[Mapping[str, Any]]:
        """The committed events of all partitions, each partition from its first to its last."""
        settings = {
            "bootstrap.servers": self._server.bootstrap_servers, "group.id": "demo",
            "isolation.level": "read_committed", "enable.auto.commit": False,
        }  # fmt: skip
        with closing(Consumer(settings)) as consumer:
            partitions = consumer.list_topics(_TOPIC, _WAIT_SECONDS).topics[_TOPIC].partitions
            for number in partitions:
                place = TopicPartition(_TOPIC, number, 0)
                _, end = consumer.get_watermark_offsets(place, _WAIT_SECONDS)
                consumer.assign([place])
                # The marks of transactions have offsets too, so the position says where the consumer is.
                while consumer.position([place])[0].offset < end:
                    for message in consumer.consume(10_000, timeout=0.2):
                        if message.error() is None and message.value() is not None:
                            yield json.loads(message.value())


def differences(counts: Mapping[str, int], changes: Sequence[TableChange], rows: int) -> list[str]:
    """A sentence for each kind of event of which the topic holds another number than there were changes.

    Args:
        counts: events in the topic, by Debezium's letter.
        changes: changes that were made to the table; the first one is the load.
        rows: rows that the table has now.
    """
    expected = {
        "r": changes[0].inserts,
        "c": sum(change.inserts for change in changes[1:]),
        "u": sum(change.updates for change in changes),
        "d": sum(change.deletes for change in changes),
    }
    wrong = [
        f"the topic holds {counts.get(op, 0):,} events {op}, not {count:,}"
        for op, count in expected.items()
        if counts.get(op, 0) != count
    ]
    left = counts.get("r", 0) + counts.get("c", 0) - counts.get("d", 0)
    return wrong if wrong or left == rows else [f"the events leave {left:,} rows, and the table has {rows:,}"]


def _line(event: Mapping[str, Any]) -> str:
    images = {name: event[name] and {key: event[name][key] for key in _SHOWN} for name in ("before", "after")}
    source = {name: event["source"][name] for name in ("batch", "snapshot_id")}
    return json.dumps({"op": event["op"], **images, "source": source})
