"""Tasks of a batch that run in one process: parts that a task misses are made again there, if their phase may be."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from icefloe.batch.commit.commit_batch import commit_batch
from icefloe.batch.context.references import BatchReference
from icefloe.batch.ends.already_finished import BatchFinished, ends_well_if_finished
from icefloe.batch.prove.finished_tasks import UnfinishedTasksError
from icefloe.batch.report import BatchReport
from icefloe.batch.run.phases import run_phase
from icefloe.batch.task_outcome import Engine
from icefloe.flow import Phase

__all__ = ["TasksInProcess"]

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksInProcess:
    """The tasks of one batch, each of which first repeats a phase whose parts are missing.

    A retry of such a task alone would meet the same gap: Airflow repeats no task before it.

    Attributes:
        reference: reference to the batch.
        engine: runs the tasks of a phase.
        environ: environment of this process.
        may_run: True if a phase runs in this process. An error that names another phase is left to its operator.
    """

    reference: BatchReference
    engine: Engine
    environ: Mapping[str, str]
    may_run: Callable[[Phase], bool]

    def run(self, phase: Phase) -> None:
        """Runs a phase; see `run_phase`."""
        self._with_all_parts(lambda: run_phase(phase, self.reference, self.engine, environ=self.environ), phase)

    def commit(self) -> BatchReport:
        """Commits; see `commit_batch`.

        Raises:
            BatchFinished: another run has committed the batch.
        """
        if self.reference.is_over():
            raise BatchFinished(self.reference)
        with ends_well_if_finished(self.reference):
            return self._with_all_parts(lambda: commit_batch(self.reference.open()))

    def _with_all_parts(self, task: Callable[[], Result], phase: Phase | None = None) -> Result:
        try:
            return task()
        except UnfinishedTasksError as error:
            if error.phase is phase or not self.may_run(error.phase):
                raise
            logger.warning("writing the missing parts again: %s", error.sentence)
            self.run(error.phase)
        return task()
