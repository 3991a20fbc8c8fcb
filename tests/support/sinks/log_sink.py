"""A sink of changes over `MemoryLog`: one transaction for each part, which also keeps the number of its batch.

A part is sent by the producer of its slot. The order is: fence older producers of the slot, read the state, commit.
So of two workers that read the same state, the one that came first is fenced. A take-over fences all slots after it
wrote its claim: an older producer is fenced, or reads the new claim.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.sink import PartDelivery, Sink, SupersededError
from support.sinks.memory_log import BusyLogError, FencedError, MemoryLog, Message
from support.sinks.rows_of_keys import key_of, refuse_other, selected

__all__ = ["LogSink"]

_SLOTS = 8


class LogSink(Sink):
    keyed: ClassVar[bool] = False

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    @property
    def url(self) -> str:
        return "memory://log"

    def check(self) -> None:
        self._state()

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:
        if only_looks:
            refuse_other(self._state().get("claim", {}), origin)
            return
        epoch = self._init("begin")
        claim = self._state().get("claim", {})
        if not takes_over:
            refuse_other(claim, origin)
        if claim.get("owner") != origin.owner:
            claim = {"owner": origin.owner, "generation": claim.get("generation", 0) + 1}
            self._commit("begin", epoch, [Message("state", "claim", claim)])
        if takes_over:
            for slot in range(_SLOTS):
                self._init(f"slot-{slot}")

    def begin(self, batch: ProvenBatch) -> Mapping[str, Any]:
        epoch = self._init("begin")
        state = self._state()
        refuse_other(state["claim"], batch.origin)
        generation = state["claim"]["generation"]
        begun, end = state.get(f"begun-{generation}", (-1, None))
        if begun == batch.batch_number and end != batch.end and not batch.is_replay:
            raise TerminalError("a restored checkpoint planned the batch again")
        if begun > batch.batch_number and not batch.is_replay:
            raise SupersededError("a later batch is there", url=self.url, batch_number=batch.batch_number)
        if begun < batch.batch_number:
            truncate = [Message("changes", "", {"truncate": True})] if batch.begins_anew else []
            record = batch.batch_number, batch.end
            self._commit("begin", epoch, [*truncate, Message("state", f"begun-{generation}", record)])
        return {"generation": generation}

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        slot = f"slot-{part.number % _SLOTS}"
        epoch = self._init(slot)
        state = self._state()
        generation, token = begun["generation"], f"part-{begun['generation']}-{part.number}"
        if state["claim"]["generation"] != generation:
            raise SupersededError("another pipeline took over", url=self.url, batch_number=batch.batch_number)
        is_there = state.get(token, -1) >= batch.batch_number
        if not is_there:
            rows = [row for rows in part.read() for row in rows.to_pylist()]
            changes = [Message("changes", key_of(batch, row), row) for row in rows]
            self._commit(slot, epoch, [*changes, Message("state", token, batch.batch_number)])
        return PartDelivery(
            number=part.number, rows=part.rows, documents=part.rows, repeated=part.rows if is_there else 0
        )

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:
        pass

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, Any]] = []
        for message in self._log.read_committed("changes"):
            if message.value.get("truncate"):
                rows = []
            elif "_change_type" in message.value:
                rows.append(message.value)
        yield selected(rows, schema, keys)

    def close(self) -> None:
        pass

    def _init(self, transactional_id: str) -> int:
        try:
            return self._log.init_transactions(transactional_id)
        except ConnectionError as error:
            raise TransientError("the broker did not answer") from error

    def _state(self) -> dict[str, Any]:
        """The last value of each key, as a compacted topic keeps it."""
        try:
            return {message.key: message.value for message in self._log.read_committed("state")}
        except ConnectionError as error:
            raise TransientError("the broker did not answer") from error

    def _commit(self, transactional_id: str, epoch: int, messages: list[Message]) -> None:
        try:
            self._log.commit(transactional_id, epoch, messages)
        except (ConnectionError, FencedError, BusyLogError) as error:
            raise TransientError("the transaction did not commit") from error
