"""The task between the phases, run in this process."""

from collections.abc import Mapping

from icefloe.batch.context.map_inputs import MapInputs
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.table_files import table_files
from icefloe.batch.phase_record import recorded_phase
from icefloe.batch.reduce.coalesce_map_outputs import Coalesced, coalesce_map_outputs
from icefloe.flow import FlowTask

__all__ = ["run_coalesce"]


def run_coalesce(reference: BatchReference, *, environ: Mapping[str, str]) -> Coalesced:
    """Plans the reduce ranges of a batch; a rerun finds them.

    The table's files are opened too, because a damaged map output is made again here.

    Args:
        reference: reference to the batch.
        environ: environment of this process.

    Raises:
        BatchCommittedError: the batch is done.
        MissingMapOutputError: a planned map task has no valid output.
        UnreliableStoreError: map outputs are found damaged again and again.
    """
    running = reference.open()
    inputs = MapInputs(folder=running.folder, io=table_files(running.plan, reference, environ).open(running.plan))
    with (
        running.naming_the_way_out(),
        running.fenced(),
        recorded_phase(running.written, FlowTask.COALESCE) as tally,
        tally.counting(running.requests),
    ):
        return coalesce_map_outputs(inputs, tally, new_name=reference.surroundings.new_name)
