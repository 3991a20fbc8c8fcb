"""The phases of a pipeline, in threads of this process or as Spark applications."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from icefloe.batch.context.batch_folder import UnfinishedTasksError
from icefloe.batch.context.references import BatchFinished, BatchReference, ends_well_if_finished
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.deliver.commit_batch import commit_batch
from icefloe.batch.phase_record import Engine
from icefloe.batch.phases import run_phase, run_without_engine
from icefloe.batch.report import BatchReport
from icefloe.engines.cores import available_cores
from icefloe.engines.local import LocalEngine
from icefloe.engines.spark.master import SparkMaster, spark_advice
from icefloe.engines.spark.submit import SparkSubmit
from icefloe.flow import FlowTask, Phase
from icefloe.pipeline.model import Pipeline

__all__ = ["PhaseRunner"]

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

SMALL_BYTES: Final = 64 * 2**20
"""Below it, starting a Spark application takes longer than the work."""


@dataclass(frozen=True, kw_only=True)
class PhaseRunner:
    """Runs the phases of an expanded pipeline in threads of this process, or as Spark applications if they are large.

    A task first repeats a phase whose parts are missing, if that runs in this process.

    Attributes:
        spark: None if no phase runs as a Spark application.
        engine: runs tasks in this process; None: a `LocalEngine`.
    """

    pipeline: Pipeline
    spark: SparkSubmit | None = None
    engine: Engine | None = None

    @classmethod
    def of(cls, pipeline: Pipeline, environ: Mapping[str, str], *, master: SparkMaster | None = None) -> Self:
        """The runner of a pipeline, by its ``engine``.

        Args:
            master: None: as ``spark.conf`` says.
        """
        is_local = pipeline.engine == "local"
        spark = None if is_local else SparkSubmit.of(pipeline, environ=environ, master=master)
        return cls(pipeline=pipeline, spark=spark)

    @property
    def cores(self) -> int:
        """Number of tasks that run at once."""
        return available_cores(self.pipeline, None if self.spark is None else self.spark.master.cores)

    @property
    def advice(self) -> str | None:
        """A sentence on settings that an operator may want to change; None if all is well."""
        if self.spark is None:
            return None
        return spark_advice(self.spark.master, self.pipeline.spark.conf, environ=self.spark.environ)

    def check_engine(self) -> Self:
        """Proves that the phases can run here, also those of a later, large batch; changes nothing."""
        if self.spark is not None:
            self.spark.check_engine()
        return self

    def check_session(self, session: PipelineSession) -> None:
        """Proves that the phases can read the table; changes nothing."""
        if self.spark is not None:
            self.spark.check_session(session)

    def run(self, phase: Phase, reference: BatchReference) -> None:
        """Runs one phase of a batch; repeating it redoes only the missing results."""
        if self.spark is not None and not self._is_small(phase, reference):
            self.spark.run(phase, reference)
            return
        engine = self.engine or LocalEngine(memory_bytes=self.pipeline.shuffle.memory_bytes)
        self._with_all_parts(lambda: run_phase(phase, reference, engine), reference, phase)

    def run_here(self, task: FlowTask, reference: BatchReference) -> dict[str, object]:
        """See `run_without_engine`."""
        return self._with_all_parts(lambda: run_without_engine(task, reference), reference)

    def commit(self, reference: BatchReference) -> BatchReport:
        """See `commit_batch`; `BatchFinished` if another run has committed the batch."""
        if reference.is_over():
            raise BatchFinished(reference)
        with ends_well_if_finished(reference):
            return self._with_all_parts(lambda: commit_batch(reference.open()), reference)

    def end(self) -> None:
        """Ends a Spark application that runs or is about to begin."""
        if self.spark is not None:
            self.spark.end()

    def _with_all_parts(
        self, task: Callable[[], Result], reference: BatchReference, phase: Phase | None = None
    ) -> Result:
        try:
            return task()
        except UnfinishedTasksError as error:
            if error.phase in (None, phase) or not self._is_small(error.phase, reference):
                raise
            logger.warning("writing the missing parts again: %s", error.sentence)
            self.run(error.phase, reference)
        return task()

    def _is_small(self, phase: Phase, reference: BatchReference) -> bool:
        """True if a phase runs in the threads of this process: always, or because it is small."""
        # A small batch is always delivered here; its other phases only with ``engine: auto``.
        if self.pipeline.engine == "local":
            return True
        if phase is Phase.DELIVER and self.pipeline.sink.needs_spark:
            return False
        if phase is Phase.DELIVER:
            # By one listing: nothing is proven yet. A table says by its format version who writes it.
            is_small = reference.folder_of_changes.size_of(reference.batch_number) < SMALL_BYTES
            if is_small and not self.pipeline.sink.has_catalog:
                return True
            # Spark has nothing to do if one commit of this process brings the batch.
            with reference.delivery_sink() as sink:
                return sink.commits_once and not sink.needs_spark
        return self.pipeline.engine == "auto" and sum(reference.open().plan.map_task_bytes) < SMALL_BYTES
