"""Messages in JSON: Debezium's envelope or plain rows."""

import json
from collections.abc import Mapping, Sequence
from time import time_ns
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.changes.columns import CHANGE_COLUMNS, COMMIT_SNAPSHOT_ID, ChangeType
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.kafka.connect_schemas import ConnectSchema
from icefloe.sinks.kafka.encoder import Encoder, Messages
from icefloe.sinks.kafka.event_rows import EventRows
from icefloe.sinks.kafka.event_source import EventSource
from icefloe.sinks.kafka.json_texts import TEXT, JsonForm, joined, row_texts
from icefloe.sinks.kafka.row_keys import key_rows, key_schema

_OPERATIONS: Final[Mapping[int, str]] = {ChangeType.INSERT: "c", ChangeType.DELETE: "d", ChangeType.UPDATE_AFTER: "u"}


class JsonEncoder(Encoder):
    """The parts that both envelopes share.

    Args:
        batch: the batch of the events.
        form: how dates and the like are written.
        schemas: Connect's schemas of ``key`` and ``value``; None: messages carry none.
    """

    def __init__(self, batch: ProvenBatch, form: JsonForm, schemas: Mapping[str, ConnectSchema] | None) -> None:
        self._batch = batch
        self._form = form
        self._schemas = schemas
        self._key = key_schema(batch)

    def keys(self, events: EventRows) -> Sequence[bytes | None]:
        """The key of each event."""
        if not self._key.names:
            return [None] * len(events.kinds)
        keys = key_rows(events.rows.take(pa.array(events.positions)), self._key)
        return self._messages("key", row_texts(keys, self._form))

    def _messages(self, of: str, texts: pa.Array) -> list[bytes]:
        if self._schemas is not None:
            texts = joined(_text(f'{{"schema":{_compact(self._schemas[of])},"payload":'), texts, _text("}"))
        return texts.cast(pa.large_binary()).to_pylist()


class DebeziumJson(JsonEncoder):
    """Debezium's envelope: ``before``, ``after``, ``source``, ``op``, ``ts_ms``, ``transaction``."""

    def encode(self, events: EventRows) -> Messages:
        """One message an event; a tombstone is the sender's work."""
        rows = events.rows
        images = row_texts(self._batch.shown_rows(rows), self._form)
        sources = row_texts(EventSource.of(self._batch).rows(rows), self._form).take(pa.array(events.positions))
        orders = pa.array(events.orders).cast(TEXT)
        now = time_ns()
        values = joined(
            _text('{"before":'), _image(images, events.befores),
            _text(',"after":'), _image(images, events.afters),
            _text(',"source":'), sources,
            _text(',"op":"'), self._operations(events.kinds),
            _text(f'","ts_ms":{now // 10**6},"ts_us":{now // 10**3},"ts_ns":{now},"transaction":{{"id":'
                  f'"{self._batch.batch_number}","total_order":'), orders,
            _text(',"data_collection_order":'), orders, _text("}}"),
        )  # fmt: skip
        return Messages(keys=self.keys(events), values=self._messages("value", values))

    def truncation(self) -> bytes:
        """A ``t`` event: the rows of the topic's partition before it are gone."""
        now = time_ns()
        payload = {
            "before": None,
            "after": None,
            "source": EventSource.of(self._batch).truncation(self._batch.up_to_snapshot_id, now // 10**6),
            "op": "t",
            "ts_ms": now // 10**6,
            "ts_us": now // 10**3,
            "ts_ns": now,
            "transaction": None,
        }
        [message] = self._messages("value", pa.array([_compact(payload)], TEXT))
        return message

    def _operations(self, kinds: NDArray[np.uint8]) -> pa.Array:
        if self._batch.is_load:
            return pa.repeat(_text("r"), len(kinds))
        names = pa.array([_OPERATIONS.get(kind, "") for kind in ChangeType], TEXT)
        return names.take(pa.array(kinds))


class PlainJson(JsonEncoder):
    """Rows with their change columns; a deleted row is a message without a value."""

    def encode(self, events: EventRows) -> Messages:
        """One message an event; an update shows the row after."""
        rows = events.rows.take(pa.array(events.positions))
        columns = {name: rows.column(name) for name in CHANGE_COLUMNS}
        # Readers of JSON round numbers above 2^53.
        columns[COMMIT_SNAPSHOT_ID] = columns[COMMIT_SNAPSHOT_ID].cast(pa.string())
        shown = self._batch.shown_rows(rows)
        message = pa.record_batch({**columns, **dict(zip(shown.schema.names, shown.columns, strict=True))})
        values: list[bytes | None] = list(self._messages("value", row_texts(message, self._form)))
        if self._key.names:
            # Without a key, nobody would know which row is gone.
            for gone in np.flatnonzero(events.kinds == ChangeType.DELETE):
                values[gone] = None
        return Messages(keys=self.keys(events), values=values)

    def truncation(self) -> None:
        """Plain rows cannot say it."""


def _image(images: pa.Array, positions: NDArray[np.int64]) -> pa.Array:
    taken = images.take(pa.array(positions, mask=positions < 0))
    return pc.fill_null(taken, _text("null"))


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, TEXT)
