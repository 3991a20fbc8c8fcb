"""One part of a proven batch, as a thread or a process of an engine delivers it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icefloe.batch.context.references import TaskReference
from icefloe.batch.context.task_attempt import TaskAttempt
from icefloe.batch.deliver.delivery_records import DeliveryRecords
from icefloe.batch.deliver.output_mode import OutputMode
from icefloe.batch.deliver.proven_batch import staged_parts
from icefloe.batch.task_outcome import TaskOutcome
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.manifest import Manifest
from icefloe.sinks.sink import PartDelivery, Sink

__all__ = ["delivered_part"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverPart:
    """The function that an engine calls with the number of each part.

    Attributes:
        reference: opens the batch and its sink where the part is delivered.
        batch: the batch.
        manifest: its manifest, so that no part reads it once more.
        output: what of it the sink is given.
        begun: facts that the sink returned when the delivery began.
    """

    reference: TaskReference
    batch: ProvenBatch
    manifest: Manifest
    output: OutputMode
    begun: Mapping[str, object]

    def __call__(self, number: int) -> TaskOutcome:
        """Delivers the part of a number, unless its delivery is recorded."""
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
