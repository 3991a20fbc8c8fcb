"""The task between the phases: index files in, reduce ranges and what to fetch for them out."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from icefloe.batch.context import BatchContext
from icefloe.batch.layout import COALESCE_PLAN, extents_key
from icefloe.batch.write_map_output import write_map_output
from icefloe.documents import dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.coalesce import coalesce
from icefloe.shuffle.commit_record import CorruptMapOutputError
from icefloe.shuffle.committed_output import CommittedOutput, partition_bytes, read_committed_outputs
from icefloe.shuffle.extents import RangeExtents, plan_extents
from icefloe.shuffle.ranges import CoalescePlan, create_coalesce_plan
from icefloe.storage.store import KeyMissingError

__all__ = [
    "coalesce_map_outputs",
    "committed_outputs",
    "load_coalesce_plan",
    "load_extents",
    "plan_epoch",
    "void_damaged",
]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coalesced:
    """The reduce ranges of a batch, and the epoch of the extents they fetch first."""

    plan: CoalescePlan
    epoch: int


def coalesce_map_outputs(context: BatchContext) -> Coalesced:
    """Plans the reduce ranges of a batch, once; a rerun finds the ranges that are there.

    A map output whose small files are damaged is made again here: ranges planned without it could skip its rows.

    Args:
        context: of the batch, with the table's files.

    Raises:
        MissingMapOutputError: a planned map task has no valid output.
    """
    context.refuse_committed()
    outputs, damaged = committed_outputs(context)
    while damaged:
        void_damaged(context, damaged)
        for damage in damaged:
            write_map_output(context, damage.map_id)
        outputs, damaged = committed_outputs(context)
    plan = context.plan
    ranges = coalesce(
        partition_bytes(outputs, plan.num_partitions), target_size_bytes=plan.target_size_bytes, min_ranges=plan.cores
    )
    created = create_coalesce_plan(
        context.store,
        COALESCE_PLAN,
        CoalescePlan(num_partitions=plan.num_partitions, target_size_bytes=plan.target_size_bytes, ranges=ranges),
    )
    epoch = plan_epoch(context, created, outputs)
    logger.info("batch %d: %d ranges of %d partitions", plan.batch_number, len(created.ranges), plan.num_partitions)
    return Coalesced(plan=created, epoch=epoch)


def committed_outputs(context: BatchContext) -> tuple[list[CommittedOutput], list[CorruptMapOutputError]]:
    """The map outputs of a batch, whole as far as their small files and sizes tell, and what is wrong with the others.

    Raises:
        MissingMapOutputError: a planned map task has no valid output.
    """
    return read_committed_outputs(
        context.store,
        context.map_outputs.records(range(context.plan.num_map_tasks)),
        schema=block_schema(context.schema.arrow),
        num_partitions=context.plan.num_partitions,
    )


def void_damaged(context: BatchContext, damaged: Sequence[CorruptMapOutputError]) -> None:
    """Says of damaged map outputs that they do not count, so that their next generation may commit."""
    for damage in damaged:
        context.map_outputs.void(damage.map_id, damage.generation, damage.reason)


def plan_epoch(context: BatchContext, plan: CoalescePlan, outputs: Sequence[CommittedOutput]) -> int:
    """Writes what each range fetches from these generations of the map outputs.

    Returns:
        The epoch the extents stand under: the sum of the generations, which grows whenever one is voided.
    """
    epoch = sum(output.record.generation for output in outputs)
    for extents in plan_extents(plan.ranges, outputs):
        context.store.create(extents_key(epoch, extents.range_id), dump_document(extents))
    return epoch


def load_coalesce_plan(context: BatchContext) -> CoalescePlan:
    """The reduce ranges of a batch.

    Raises:
        TerminalError: there are none yet.
    """
    what = f"the coalesce plan {context.store.url}/{COALESCE_PLAN}"
    try:
        return load_document(CoalescePlan, context.store.get(COALESCE_PLAN), what=what)
    except KeyMissingError as cause:
        raise TerminalError(f"{what} is not there: run coalesce first", url=context.store.url) from cause


def load_extents(context: BatchContext, range_id: int, epoch: int) -> RangeExtents:
    """What a range fetches in an epoch."""
    key = extents_key(epoch, range_id)
    return load_document(RangeExtents, context.store.get(key), what=f"the extents {context.store.url}/{key}")
