"""The changes that a topic still holds."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Message

from icefloe.changes.columns import (
    BATCH,
    CHANGE_COLUMNS,
    CHANGE_ORDINAL,
    CHANGE_TYPE,
    COMMIT_SNAPSHOT_ID,
    COMMIT_TIMESTAMP,
    ChangeType,
)
from icefloe.sinks.dotted_names import column_paths, column_type
from icefloe.sinks.json_texts import JsonForm, avro_name, parser
from icefloe.sinks.kafka.events import BATCH_HEADER, SNAPSHOT_HEADER
from icefloe.sinks.kafka.kafka_clients import KafkaClients
from icefloe.sinks.kafka.topics import Topic, end_offsets, first_offsets, read_to

_LOOKED_AT: Final = 1000


def retained_messages(clients: KafkaClients, topic: Topic, starts: Sequence[int]) -> Iterator[list[Message]]:
    """The committed messages by partition, from ``starts`` to the present end."""
    consumer = clients.consumer()
    try:
        for partition, end in enumerate(end_offsets(clients, topic)):
            start = _start(starts, partition)
            for _, messages in read_to(consumer, clients, topic, partition=partition, start=start, end=end):
                if found := [message for message in messages if message.offset() < end]:
                    yield found
    finally:
        consumer.close()


def lacks_oldest(clients: KafkaClients, topic: Topic, starts: Sequence[int]) -> bool:
    """True if retention has deleted messages behind the start of a partition."""
    firsts = enumerate(first_offsets(clients, topic))
    return any(first > _start(starts, partition) for partition, first in firsts)


def _start(starts: Sequence[int], partition: int) -> int:
    # Partitions that were added later have no start: all that they hold came after the load.
    return starts[partition] if partition < len(starts) else 0


class RetainedChanges:
    """Reads changes out of messages."""

    def __init__(
        self, schema: pa.Schema, form: JsonForm, payload: Callable[[bytes], object], *, is_debezium: bool
    ) -> None:
        self._schema = schema
        self._form = form
        self._read_payload = payload
        self._is_debezium = is_debezium
        self._read: Callable[[Message], Iterator[dict[str, object]]] = self._debezium if is_debezium else self._plain
        paths = {".".join(path): path for path in column_paths(schema)}
        self._key_columns = {
            self._written(name): (path, parser(column_type(schema, name), form)) for name, path in paths.items()
        }
        self._parsers = {each.name: (self._written(each.name), parser(each.type, form)) for each in schema}

    def rows(self, messages: Sequence[Message]) -> pa.RecordBatch:
        """The changes of this sink's messages: two rows for an update."""
        rows = [row for message in messages if is_change(message) for row in self._read(message)]
        return pa.RecordBatch.from_arrays(
            [pa.array([row.get(field.name) for row in rows], field.type) for field in self._schema], schema=self._schema
        )

    def key(self, message: Message) -> str | None:
        """The `key_text` of a change; None for messages of other programs."""
        return key_text(self._payload(message.key())) if is_change(message) else None

    def names(self, messages: Iterable[Message]) -> Sequence[str]:
        """The columns of images, as written; none without an image.

        Names inside of structs and maps are dotted. Images are looked at until one has all values.
        """
        names: dict[str, None] = {}
        for message in islice(messages, _LOOKED_AT):
            found = self._payload(message.value())
            image = (found["after"] or found["before"]) if found and self._is_debezium else found
            columns = {name: value for name, value in (image or {}).items() if name not in CHANGE_COLUMNS}
            if _add_names(columns, "", names):
                break
        return list(names)

    def _debezium(self, message: Message) -> Iterator[dict[str, object]]:
        payload = self._payload(message.value())
        if payload is None:
            return
        source, before, after = payload["source"], payload["before"], payload["after"]
        change = {
            BATCH: source["batch"],
            CHANGE_ORDINAL: source["ordinal"],
            COMMIT_SNAPSHOT_ID: int(source["snapshot_id"]),
            COMMIT_TIMESTAMP: source["ts_us"],
        }
        kinds = (ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER)
        if payload["op"] != "u":
            kinds = (ChangeType.DELETE, ChangeType.INSERT)
        for kind, image in zip(kinds, (before, after), strict=True):
            if image is not None:
                yield {**change, CHANGE_TYPE: kind.name, **self._columns(image)}

    def _plain(self, message: Message) -> Iterator[dict[str, object]]:
        row = self._payload(message.value())
        if row is None:
            headers = dict(message.headers() or [])
            key = self._payload(message.key()) or {}
            yield {
                BATCH: int(headers[BATCH_HEADER]),
                CHANGE_TYPE: ChangeType.DELETE.name,
                COMMIT_SNAPSHOT_ID: int(headers[SNAPSHOT_HEADER]),
                **self._key_row(key),
            }
            return
        change = {name: row.pop(name) for name in CHANGE_COLUMNS}
        change[COMMIT_SNAPSHOT_ID] = int(change[COMMIT_SNAPSHOT_ID])
        change[COMMIT_TIMESTAMP] = self._parsers[COMMIT_TIMESTAMP][1](change[COMMIT_TIMESTAMP])
        yield {**change, **self._columns(row)}

    def _columns(self, image: dict[str, object]) -> dict[str, object]:
        found = self._parsers.items()
        return {name: parse(image[written]) for name, (written, parse) in found if written in image}

    def _key_row(self, key: dict[str, object]) -> dict[str, object]:
        row: dict[str, Any] = {}
        for written in key.keys() & self._key_columns.keys():
            (*outer, name), parse = self._key_columns[written]
            inside = row
            for each in outer:
                inside = inside.setdefault(each, {})
            inside[name] = parse(key[written])
        return row

    def _written(self, name: str) -> str:
        return avro_name(name) if self._form is JsonForm.AVRO else name

    def _payload(self, message: bytes | None) -> Any:
        return None if message is None else self._read_payload(message)


def _add_names(value: object, prefix: str, names: dict[str, None]) -> bool:
    """Add the names inside of a value; False if others may follow."""
    if isinstance(value, dict):
        names.update(dict.fromkeys(f"{prefix}{name}" for name in value))
        # Of all values: one that is missing does not end the look.
        are_whole = [_add_names(inner, f"{prefix}{name}.", names) for name, inner in value.items()]
        return bool(value) and all(are_whole)
    if isinstance(value, list):
        are_whole = [_add_names(each, prefix, names) for each in value]
        return any(are_whole)
    return value is not None


def json_payload(text: bytes, *, has_schema: bool) -> Any:
    """The payload in JSON, with or without schema."""
    value = json.loads(text)
    return value["payload"] if has_schema else value


def key_text(key: object) -> str:
    """The same text for equal keys."""
    return json.dumps(key, ensure_ascii=False, default=repr)


def batch_of(message: Message) -> int:
    """The number of the batch of a change."""
    return int(dict(message.headers() or [])[BATCH_HEADER])


def is_change(message: Message) -> bool:
    """True for messages of this sink, except truncations."""
    return any(name == BATCH_HEADER for name, _ in message.headers() or [])
