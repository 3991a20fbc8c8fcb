"""The task between the phases: index files in, reduce ranges and their extents out."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from icefloe.batch.batch_keys import COALESCE_PLAN
from icefloe.batch.context.batch_folder import BatchFileMissingError, BatchFolder, load_batch_document, says_remedy
from icefloe.batch.context.map_inputs import MapInputs
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.phase_record import PhaseTally
from icefloe.batch.reduce.batch_extents import BatchExtents
from icefloe.batch.reduce.repair import read_all_blocks
from icefloe.shuffle.coalesce import coalesce
from icefloe.shuffle.map_output import new_attempt
from icefloe.shuffle.map_output_log import MissingMapOutputError
from icefloe.shuffle.reduce_ranges import CoalescePlan, create_coalesce_plan
from icefloe.storage.store import KeyMissingError

__all__ = ["Coalesced", "coalesce_map_outputs", "load_coalesce_plan"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coalesced:
    """The reduce ranges of a batch, and the epoch of the extents they fetch first."""

    plan: CoalescePlan
    epoch: int


def coalesce_map_outputs(
    inputs: MapInputs, tally: PhaseTally, *, new_name: Callable[[], str] = new_attempt
) -> Coalesced:
    """Plans the reduce ranges of a batch once. A rerun finds the existing ranges.

    A map output whose small files are damaged is made again here: ranges planned without it could skip its rows.

    Args:
        inputs: folder of the batch, and the table's files.
        tally: counts map outputs that are missing or made again.
        new_name: names an attempt that makes a map output again.

    Raises:
        MissingMapOutputError: a planned map task has no valid output.
        UnreliableStoreError: map outputs are found damaged again and again.
    """
    folder, plan = inputs.folder, inputs.folder.plan

    def redo(map_ids: Sequence[int]) -> None:
        tally.map_tasks_run_again += len(map_ids)
        tally.map_outputs_void += len(map_ids)
        for map_id in map_ids:
            write_map_output(inputs, map_id, attempt=new_name())

    try:
        collected = read_all_blocks(folder, redo)
    except MissingMapOutputError as error:
        tally.map_outputs_missing += len(error.map_ids)
        raise
    with collected as blocks:
        ranges = coalesce(
            blocks.partition_bytes[: plan.num_partitions],
            target_size_bytes=plan.target_size_bytes,
            min_ranges=plan.cores,
            part_bytes=blocks.part_bytes,
        )
        hash_ranges = coalesce(
            blocks.partition_bytes[plan.num_partitions :],
            target_size_bytes=plan.target_size_bytes,
            min_ranges=plan.cores,
        )
        with says_remedy(folder.store):
            created = create_coalesce_plan(
                folder.store,
                COALESCE_PLAN,
                CoalescePlan.of(
                    ranges,
                    num_partitions=plan.num_partitions,
                    target_size_bytes=plan.target_size_bytes,
                    hash_ranges=hash_ranges,
                ),
            )
        # Extents of the ranges that were created, which may be those of an earlier attempt.
        BatchExtents(folder, blocks.epoch).write(created, blocks)
    logger.info("batch %d: %d ranges of %d partitions", plan.batch_number, len(created.ranges), plan.num_partitions)
    return Coalesced(plan=created, epoch=blocks.epoch)


def load_coalesce_plan(folder: BatchFolder) -> CoalescePlan:
    """The reduce ranges of a batch.

    Raises:
        BatchFileMissingError: there are none yet, or no longer.
        TerminalError: they were written by another release, or are damaged.
    """
    try:
        return load_batch_document(CoalescePlan, folder.store, COALESCE_PLAN, what="the coalesce plan")
    except KeyMissingError as cause:
        raise BatchFileMissingError(
            f"the coalesce plan {folder.store.url}/{COALESCE_PLAN} is missing: run coalesce first", url=folder.store.url
        ) from cause
