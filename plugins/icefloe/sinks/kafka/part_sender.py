"""The delivery of a part in bounded transactions."""

from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

import pyarrow as pa

from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.events import BATCH_HEADER, PIPELINE_HEADER, SNAPSHOT_HEADER, EventRows, event_rows
from icefloe.sinks.kafka.kafka_clients import KafkaClients, KafkaOptions
from icefloe.sinks.kafka.message_format import Encoder
from icefloe.sinks.kafka.topic_state import (
    Headers,
    PartProgress,
    Placement,
    StateTopic,
    TopicState,
    TransactionProducer,
    part_key,
    part_role,
)
from icefloe.sinks.kafka.topics import most_bytes
from icefloe.sinks.key_changes import one_row_per_key
from icefloe.sinks.sink import PartDelivery, superseded

_TIME_SHARE: Final = 0.25
"""A transaction is committed after this share of the time after which the broker aborts it."""


@dataclass(kw_only=True)
class PartSender:
    """Sends one part."""

    clients: KafkaClients
    options: KafkaOptions
    log: StateTopic
    encoder: Encoder
    batch: ProvenBatch
    generation: int  # of the owner of the batch
    part: StagedPart
    _bytes: int = 0

    def send(self) -> PartDelivery:
        """Sends the rows that are not in the topic yet. FencedError: another process sends this part; look again."""
        number, topic = self.part.number, self.options.topic
        # Asked for in each try: an administrator may have raised it since the last one.
        taken_bytes = most_bytes(self.clients, topic)
        with TransactionProducer(self.clients, self.options, part_role(number), most_bytes=taken_bytes) as producer:
            state = self.log.look()
            placement = self._placement(state)
            if placement is None and self.batch.is_replay:
                # The topic has later batches, so this one was delivered before them.
                events = sum(len(slice_.kinds) for slice_ in event_rows(self.part.read()))
                return PartDelivery(number=number, rows=self.part.rows, documents=events, superseded=events)
            if placement is not None and number not in state.parts:
                # Whoever fences the parts of this batch must know this number, before anything is sent under it.
                producer.commit_record(part_key(number), PartProgress(generation=self.generation))
                state = self.log.look()
                placement = self._placement(state)
            if placement is None:
                raise superseded(self.batch, f"topic {topic}")
            placement.require(topic, key_schema_id=self.encoder.key_schema_id)
            done = state.parts[number]
            if (done.generation, done.batch_number) != self._order:
                done = PartProgress(generation=self.generation, batch_number=self.batch.batch_number)
            if not done.rows and self.batch.identity and self.options.duplicates == "fail":
                one_row_per_key(self.part.read, identity=self.batch.identity, hash_key=self.batch.hash_key)
            events = done.events if done.rows >= self.part.rows else self._send_after(producer, done, placement)
        return PartDelivery(
            number=number, rows=self.part.rows, documents=events, repeated=done.events, bytes=self._bytes
        )

    @property
    def _order(self) -> tuple[int, int]:
        return self.generation, self.batch.batch_number

    def _placement(self, state: TopicState) -> Placement | None:
        """The placement that the batch began with; None if another owner or a later batch has begun."""
        claim, last = state.claim, state.batch
        is_over = claim is None or last is None or claim.generation > self.generation or last.order > self._order
        return None if is_over or last is None else last.placement

    def _send_after(self, producer: TransactionProducer, done: PartProgress, placement: Placement) -> int:
        """Sends the events after those that are done; returns the number of all."""
        options, longest_seconds = self.options, self.options.transaction_seconds * _TIME_SHARE
        rows, events, waiting, size, began = done.rows, done.events, 0, 0, monotonic()

        def commit() -> None:
            progress = replace(done, rows=rows, events=events)
            producer.commit_record(part_key(self.part.number), progress, placed_by=placement)
            self._bytes += size

        # Sent after a delete, so that a compacted topic drops the row.
        has_tombstones = options.tombstones and bool(self.batch.identity)
        for slice_ in event_rows(self.part.read(), skip_rows=done.rows, rows_before=self.part.first_row):
            keys, values = self.encoder.encode(slice_)
            headers = self._headers(slice_)
            deletes, ends = (slice_.kinds == ChangeType.DELETE).tolist(), slice_.ends.tolist()
            for key, value, is_delete, end, header in zip(keys, values, deletes, ends, headers, strict=True):
                began = began if waiting else monotonic()
                producer.send(options.topic, key=key, value=value, headers=header)
                if is_delete and has_tombstones and value is not None:
                    producer.send(options.topic, key=key, value=None, headers=header)
                rows, events, waiting = end, events + 1, waiting + 1
                size += len(key or b"") + len(value or b"")
                is_large = waiting >= options.transaction_rows or size >= options.transaction_bytes
                if is_large or monotonic() - began > longest_seconds:
                    commit()
                    waiting = size = 0
        if waiting:
            commit()
        return events

    def _headers(self, events: EventRows) -> list[Headers]:
        number, pipeline = str(self.batch.batch_number).encode(), self.batch.origin.pipeline.encode()
        fixed = [(PIPELINE_HEADER, pipeline), (BATCH_HEADER, number)]
        ids = events.rows.column(ChangeColumns.SNAPSHOT_ID).take(pa.array(events.positions)).to_pylist()
        by_snapshot = {each: [*fixed, (SNAPSHOT_HEADER, str(each).encode())] for each in {*ids}}
        return [by_snapshot[each] for each in ids]
