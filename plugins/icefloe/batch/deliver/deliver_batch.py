"""Deliver: a staged batch is proven, its parts go to the sink, and the batch is recorded as visible."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal, TypeVar

from icefloe.batch.context.batch_folder import find_batch_document
from icefloe.batch.context.end_batch import show_ends
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.context.task_attempt import TaskAttempt
from icefloe.batch.deliver.prove import OutputMode, prove_and_publish, proven_batch, staged_parts
from icefloe.batch.deliver.sorted_ranges import SortedRanges
from icefloe.batch.phase_record import Engine, PhaseTally, TaskOutcome, TrackedApplication, require_success
from icefloe.batch.plan_document import begun_key, delivery_key
from icefloe.batch.report import SUMMED, BatchDelivery
from icefloe.documents import Document, dump_document, load_document
from icefloe.errors import TerminalError, TransientError
from icefloe.flow import Phase
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.manifest import DamagedPartsError, Manifest
from icefloe.sinks.sink import PartDelivery, Sink
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import KeyMissingError, Store
from icefloe.units import time_text

__all__ = ["deliver_batch", "delivered_part"]

_Result = TypeVar("_Result")
logger = logging.getLogger(__name__)


def deliver_batch(reference: BatchReference, engine: Engine, *, application: TrackedApplication | None = None) -> None:
    """Delivers the parts of a batch that are left; repeating it delivers nothing twice.

    Raises:
        UnfinishedTasksError: a part is missing or cut.
        SupersededError: the sink holds a later batch.
    """
    started = time.monotonic()
    running = reference.open()
    with running.recording(Phase.DELIVER, application) as tally:
        records = DeliveryRecords(running.folder.store)
        prove_and_publish(running)
        manifest = running.folder_of_changes.manifest(running.plan.batch_number)
        if reference.delivery is not None:
            return
        parts = staged_parts(running.folder_of_changes, manifest, memory_bytes=running.folder.memory_bytes)
        output = OutputMode.of(manifest.batch, list(parts), running.settings.pipeline.changes)
        batch = _begun_batch(running, manifest, output)
        with reference.delivery_sink() as sink:
            # Readers stop at a number without a manifest: an end before this batch may have been killed before its own.
            show_ends(reference, up_to=batch.batch_number - 1)
            now = BegunDelivery.as_recorded(sink.begin(batch))
            begun = records.begin(now)
            _refuse_other_destination(batch, sink, begun, now)
            bounds = SortedRanges.bounds_of(
                running.folder, sink, batch, staged=running.folder_of_changes, manifest=manifest
            )
            # One call for all parts if the sink commits once.
            is_one = sink.commits_once or sink.order_by
            numbers = range(len(bounds) + 1 if is_one else len(manifest.parts))
            task = DeliverPart(
                reference=reference.for_tasks(running.plan),
                batch=batch,
                manifest=manifest,
                output=output,
                begun=begun,
                bounds=bounds,
            )
            chosen = _Driver() if sink.commits_once else engine
            deliver = partial(_delivered, task, numbers, engine=chosen, records=records, tally=tally)
            deliveries = deliver()
            try:
                sink.finish(batch, begun, deliveries)
            except DamagedPartsError as damage:
                logger.warning("batch %d: %s; they are delivered again", batch.batch_number, damage.sentence)
                records.forget_parts(damage.numbers)
                deliveries = deliver()
                sink.finish(batch, begun, deliveries)
            records.create_batch(
                BatchDelivery(
                    parts=len(deliveries),
                    **{name: sum(getattr(each, name) for each in deliveries) for name in SUMMED},
                    sink=reference.settings.pipeline.sink.type,
                    url=sink.url,
                    visible_at=time_text(datetime.now(UTC)),
                    lag_seconds=_lag_seconds(running),
                    seconds=time.monotonic() - started,
                    details=deliveries[0].details if sink.commits_once else {},
                ),
            )
        logger.info("batch %d of %s: delivered", batch.batch_number, batch.origin.pipeline)


def _begun_batch(running: RunningBatch, manifest: Manifest, output: OutputMode) -> ProvenBatch:
    offset = running.checkpoint.known_offset(running.plan.batch_number)
    before = None if offset.begins_anew else running.checkpoint.last_delivered(before=offset.batch_number)
    return replace(proven_batch(offset, manifest, output), delivered_before=before)


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunDelivery(Document):
    """``deliveries/begun.json``: facts that the first try found at the sink."""

    version: Literal[1] = 1
    facts: Mapping[str, object]

    @classmethod
    def as_recorded(cls, facts: Mapping[str, object]) -> Mapping[str, object]:
        """Facts as JSON gives them back: a tuple is a list there."""
        return load_document(cls, dump_document(cls(facts=facts)), what="the begun delivery").facts


class DeliveryRecords:
    """The records of one delivery. Of several tries the first record counts, until it is forgotten."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def begin(self, facts: Mapping[str, object]) -> Mapping[str, object]:
        """Records the facts of the first try; returns those that count."""
        if self.store.create(begun_key(), dump_document(BegunDelivery(facts=facts))):
            return facts
        found = find_batch_document(BegunDelivery, self.store, begun_key(), what="the begun delivery")
        if found is None:
            raise KeyMissingError.of(self.store.url, begun_key())
        return found.facts

    def part(self, number: int) -> PartDelivery | None:
        """The delivery of a part; None if there is none yet."""
        return find_batch_document(PartDelivery, self.store, delivery_key(number), what="the delivery")

    def create_part(self, delivery: PartDelivery) -> None:
        """Records the delivery of a part, unless another try was first."""
        self.store.create(delivery_key(delivery.number), dump_document(delivery))

    def forget_parts(self, numbers: Iterable[int]) -> None:
        """Lets parts be delivered again; the sink finds what it holds of them."""
        self.store.delete([delivery_key(number) for number in numbers])

    def create_batch(self, delivery: BatchDelivery) -> None:
        """Records that the batch is visible, unless another try was first."""
        self.store.create(delivery_key(None), dump_document(delivery))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverPart:
    """The function that an engine calls with the number of each part.

    Attributes:
        bounds: of ranges of keys, which are the parts then; empty: the parts are those that are staged.
        divides: True if the number is a staged part's, which is only to be divided into ranges.
    """

    reference: BatchReference
    batch: ProvenBatch
    manifest: Manifest
    output: OutputMode
    begun: Mapping[str, object]
    bounds: tuple[bytes, ...] = ()
    divides: bool = False

    def __call__(self, number: int) -> TaskOutcome:
        """Delivers a part, unless its delivery is recorded, or divides it."""
        with TaskAttempt(f"part {number} of the delivery", self.reference) as attempt:
            running = attempt.open()
            with running.fenced():
                records = DeliveryRecords(running.folder.store)
                attempt.is_adopted = not self.divides and records.part(number) is not None
                if not attempt.is_adopted:
                    staged = staged_parts(
                        running.folder_of_changes,
                        self.manifest,
                        memory_bytes=running.folder.memory_bytes,
                    )
                    parts = [self.output.reduced(part) for part in staged]
                    with self.reference.delivery_sink() as sink:
                        ranges = SortedRanges(
                            folder=running.folder, sink=sink, batch=self.batch, parts=parts, bounds=self.bounds
                        )
                        if self.divides:
                            ranges.divide(number, attempt=self.reference.surroundings.new_name())
                        elif self.bounds:
                            records.create_part(sink.deliver(self.batch, self.begun, ranges.part(number)))
                        else:
                            memory_bytes = running.folder.memory_bytes
                            records.create_part(
                                delivered_part(sink, self.batch, self.begun, parts, number, memory_bytes=memory_bytes)
                            )
        return attempt.outcome


def delivered_part(
    sink: Sink,
    batch: ProvenBatch,
    begun: Mapping[str, object],
    parts: Sequence[StagedPart],
    number: int,
    *,
    memory_bytes: int,
) -> PartDelivery:
    """Hands one part to a sink, or the whole batch if the sink commits once or has an order."""
    part = StagedPart.whole(parts) if sink.commits_once or sink.order_by else parts[number]
    if sink.order_by:
        part = sink.order(batch).sorted_part(part, batch.schema, memory_bytes=memory_bytes)
    return sink.deliver(batch, begun, part)


def _refuse_other_destination(
    batch: ProvenBatch, sink: Sink, begun: Mapping[str, object], now: Mapping[str, object]
) -> None:
    """The first parts went elsewhere, or are gone."""
    if begun == now:
        return
    before, found = begun.get("destination"), now.get("destination")
    name = batch.origin.pipeline
    where = f"began to be delivered to {before}, and {sink.url} now has {found}"
    if before == found:
        where = f"began to be delivered to {sink.url}, which another pipeline has taken over since"
    raise TerminalError(
        f"batch {batch.batch_number} of {name} {where}, where its first parts may be missing: correct the address of "
        f"the sink (its url, bootstrap_servers or connection), or load the table again with icefloe reset {name}",
        url=sink.url,
        batch_number=batch.batch_number,
    )


class _Driver:
    """The engine of a sink that commits once."""

    def map(self, function: Callable[[int], _Result], numbers: Sequence[int]) -> list[_Result]:
        """Calls the function here."""
        return [function(number) for number in numbers]


def _delivered(
    task: DeliverPart, numbers: Sequence[int], *, engine: Engine, records: DeliveryRecords, tally: PhaseTally
) -> list[PartDelivery]:
    """Delivers parts that are missing or have dead letters. Errors that retrying cannot fix come first."""
    found = map_parallel(records.part, numbers)
    records.forget_parts(each.number for each in found if each is not None and each.dead_letters)
    missing = [number for number, each in zip(numbers, found, strict=True) if each is None or each.dead_letters]
    logger.info("batch %d: %d of %d parts to deliver", task.batch.batch_number, len(missing), len(numbers))
    tally.begin(len(missing), of=len(numbers))
    if missing:
        if task.bounds:
            _divide(task, engine=engine, tally=tally)
        require_success(tally.finish(engine.map(task, missing)))
        found = map_parallel(records.part, numbers)
    deliveries = [each for each in found if each is not None]
    if len(deliveries) < len(numbers):
        url = records.store.url
        raise TransientError(
            f"records of delivered parts are gone from {url}: another run delivers these parts again, or somebody "
            "deletes files there; run again, parts that the sink holds are not delivered twice",
            url=url,
        )
    return deliveries


def _divide(task: DeliverPart, *, engine: Engine, tally: PhaseTally) -> None:
    """Divides the parts that are still whole."""
    # A tally of their own: progress and report count ranges.
    of_parts = PhaseTally.of(Phase.DELIVER)
    store, parts = task.reference.folder, len(task.manifest.parts)
    numbers = SortedRanges.undivided(store, task.batch, parts=parts)
    require_success(of_parts.finish(engine.map(replace(task, divides=True), numbers)))
    SortedRanges.gather(store, task.batch, parts=parts)
    tally.record.requests += of_parts.record.requests


def _lag_seconds(running: RunningBatch) -> float | None:
    """From the last commit of the batch until now."""
    steps = running.plan.spec.steps
    return max(0.0, time.time() - steps[-1].commit_timestamp_us / 1e6) if steps else None
