"""A phase with the table's files opened, and opened again when credentials that a catalog vends have expired."""

import logging
from collections.abc import Mapping

from icefloe.batch.context.batch_context import TaskReference
from icefloe.batch.phase_record import TrackedApplication
from icefloe.batch.run.phases import Engine, run_phase
from icefloe.batch.table_access import TableAccess, table_files
from icefloe.flow import Phase
from icefloe.iceberg.catalog.file_io import FileRefusedError, FileUnansweredError

__all__ = ["run_phase_on_files"]

logger = logging.getLogger(__name__)


def run_phase_on_files(
    phase: Phase,
    reference: TaskReference,
    engine: Engine,
    *,
    environ: Mapping[str, str],
    application: TrackedApplication | None = None,
) -> None:
    """Runs the tasks that a phase has left; see `run_phase`.

    Credentials that the catalog vends may expire before the phase ends. Tasks that are then refused files run again
    with new credentials, as long as that brings the phase forward. The credentials are renewed here, and not by the
    tasks, because executors need not reach the catalog.

    Args:
        phase: phase to run.
        reference: reference to the batch. Access to the table's files is requested from the catalog.
        engine: runs the tasks.
        environ: environment of this process.
        application: Spark application of the engine, if it has one.
    """
    context = reference.open()

    def files() -> TableAccess:
        return table_files(
            context.plan, reference.credentials, environ, allowed_locations=reference.settings.allowed_locations
        )

    def written() -> int:
        states = context.map_outputs.states(range(len(context.plan.map_task_bytes)))
        return sum(state.record is not None for state in states)

    current, before = files(), -1
    while True:
        try:
            return run_phase(phase, reference.for_tasks(current), engine, application=application)
        except (FileRefusedError, FileUnansweredError) as error:
            renewed, now = files(), written()
            if renewed == current or now == before:
                raise
            logger.info("%s goes on with new credentials, for the storage gave no files: %s", phase, error)
            current, before = renewed, now
