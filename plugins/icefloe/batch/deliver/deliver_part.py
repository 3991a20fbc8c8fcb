"""One part of a proven batch, and the records of deliveries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from pydantic import ConfigDict

from icefloe.batch.batch_keys import begun_key, delivery_key
from icefloe.batch.context.batch_folder import load_batch_document
from icefloe.batch.context.references import TaskReference
from icefloe.batch.context.task_attempt import TaskAttempt
from icefloe.batch.deliver.proven_batch import OutputMode, staged_parts
from icefloe.batch.phase_record import TaskOutcome
from icefloe.batch.report import BatchDelivery
from icefloe.documents import STRICT, dump_document
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.manifest import Manifest
from icefloe.sinks.sink import PartDelivery, Sink
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import KeyMissingError, Store

__all__ = ["DeliveryRecords", "delivered_part"]

_Record = TypeVar("_Record", PartDelivery, BatchDelivery)


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunDelivery:
    """``deliveries/begun.json``: facts that the first try found at the sink."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    facts: Mapping[str, object]


class DeliveryRecords:
    """The records of one delivery. Of several tries the first record counts, until it is forgotten."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, facts: Mapping[str, object]) -> Mapping[str, object]:
        """Records the facts of the first try; returns those that count."""
        if self._store.create(begun_key(), dump_document(BegunDelivery(facts=facts))):
            return facts
        return load_batch_document(BegunDelivery, self._store, begun_key(), what="the begun delivery").facts

    def part(self, number: int) -> PartDelivery | None:
        """The delivery of a part; None if there is none yet."""
        return self._find(PartDelivery, delivery_key(number))

    def parts(self, numbers: Iterable[int]) -> list[PartDelivery | None]:
        """`part` of each number, in order."""
        return map_parallel(self.part, numbers, at_once=self._store.requests_at_once)

    def create_part(self, delivery: PartDelivery) -> None:
        """Records the delivery of a part, unless another try was first."""
        self._store.create(delivery_key(delivery.number), dump_document(delivery))

    def forget_parts(self, numbers: Iterable[int]) -> None:
        """Lets parts be delivered again; the sink finds what it holds of them."""
        self._store.delete([delivery_key(number) for number in numbers])

    def batch(self) -> BatchDelivery | None:
        """The delivery of the batch; None if it is not visible as a whole yet."""
        return self._find(BatchDelivery, delivery_key(None))

    def create_batch(self, delivery: BatchDelivery) -> None:
        """Records that the batch is visible, unless another try was first."""
        self._store.create(delivery_key(None), dump_document(delivery))

    def _find(self, kind: type[_Record], key: str) -> _Record | None:
        try:
            return load_batch_document(kind, self._store, key, what="the delivery")
        except KeyMissingError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverPart:
    """The function that an engine calls with the number of each part."""

    reference: TaskReference
    batch: ProvenBatch
    manifest: Manifest
    output: OutputMode
    begun: Mapping[str, object]

    def __call__(self, number: int) -> TaskOutcome:
        """Delivers a part, unless its delivery is recorded."""
        with TaskAttempt(f"part {number} of the delivery", self.reference) as attempt:
            running = attempt.open()
            with running.fenced():
                records = DeliveryRecords(running.folder.store)
                attempt.is_adopted = records.part(number) is not None
                if not attempt.is_adopted:
                    staged = staged_parts(
                        running.folder_of_changes, self.manifest, memory_bytes=running.settings.memory_bytes
                    )
                    parts = [self.output.reduced(part) for part in staged]
                    with self.reference.batch.delivery_sink() as sink:
                        delivery = delivered_part(sink, self.batch, self.begun, parts, number)
                    records.create_part(delivery)
        return attempt.outcome


def delivered_part(
    sink: Sink,
    batch: ProvenBatch,
    begun: Mapping[str, object],
    parts: Sequence[StagedPart],
    number: int,
) -> PartDelivery:
    """Hands one part to a sink, or the whole batch if the sink commits once."""
    return sink.deliver(batch, begun, StagedPart.whole(parts) if sink.commits_once else parts[number])
