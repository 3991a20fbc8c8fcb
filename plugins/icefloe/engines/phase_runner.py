"""The phases of a pipeline, in threads of this process or as Spark applications."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.phases import run_phase
from icefloe.engines.local import LocalEngine
from icefloe.engines.spark.application import check_session
from icefloe.engines.spark.submit import SparkSubmit
from icefloe.flow import Phase
from icefloe.pipeline.model import Pipeline

__all__ = ["PhaseRunner", "runs_in_process"]

SMALL_BYTES: Final = 64 * 2**20
"""Below it, starting a Spark application takes longer than the work."""


@dataclass(frozen=True, kw_only=True)
class PhaseRunner:
    """Runs the phases of an expanded pipeline in threads of this process, or as Spark applications if they are large.

    Attributes:
        spark: None if the pipeline has ``engine: local``.
    """

    pipeline: Pipeline
    report_progress: Callable[[int, int], None] | None = None
    spark: SparkSubmit | None = None

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        environ: Mapping[str, str],
        *,
        report_progress: Callable[[int, int], None] | None = None,
    ) -> Self:
        """The runner of a pipeline, by its ``engine``."""
        spark = None if pipeline.engine == "local" else SparkSubmit.of(pipeline, environ=environ)
        return cls(pipeline=pipeline, report_progress=report_progress, spark=spark)

    @property
    def cores(self) -> int | None:
        """Number of tasks that run at once; None if the planner has to count."""
        return None if self.spark is None else self.spark.master.cores

    @property
    def advice(self) -> Sequence[str]:
        """Sentences on settings that an operator may want to change; none if all is well."""
        return () if self.spark is None else self.spark.advice

    def check_engine(self) -> None:
        """Proves that the phases can run here, also those of a later, large batch; changes nothing."""
        if self.spark is not None:
            self.spark.check_engine()

    def check_session(self, session: PipelineSession) -> None:
        """Proves that the phases can read the table; changes nothing."""
        if self.spark is not None:
            check_session(session, self.spark.master)

    def run(self, phase: Phase, reference: BatchReference) -> None:
        """Runs one phase of a batch; repeating it redoes only the missing results."""
        if self.spark is not None and not runs_in_process(self.pipeline, phase, lambda: reference):
            self.spark.run(phase, reference)
            return
        memory_bytes = reference.settings.pipeline.shuffle.memory_bytes
        run_phase(phase, reference, LocalEngine(memory_bytes=memory_bytes, report_progress=self.report_progress))


def runs_in_process(pipeline: Pipeline, phase: Phase, reference_of: Callable[[], BatchReference]) -> bool:
    """True if a phase runs in the threads of this process: always, or because it is small.

    A small batch is always delivered here; its other phases only with ``engine: auto``.

    Args:
        reference_of: called only if the size of its batch decides.
    """
    if pipeline.engine == "local":
        return True
    if phase is Phase.DELIVER:
        # By one listing: nothing is proven yet.
        reference = reference_of()
        return reference.folder_of_changes.size_of(reference.batch_number) < SMALL_BYTES
    return pipeline.engine == "auto" and sum(reference_of().open().plan.map_task_bytes) < SMALL_BYTES
