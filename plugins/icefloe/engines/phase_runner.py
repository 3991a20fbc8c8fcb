"""The ways to run phases: in threads of this process, or as Spark applications."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.phases import run_phase
from icefloe.engines.local import LocalEngine
from icefloe.engines.spark.submit import SparkSubmit
from icefloe.flow import Phase
from icefloe.pipeline.model import Pipeline

__all__ = ["PhaseRunner", "phase_runner", "runs_in_process"]

SMALL_BYTES: Final = 64 * 2**20
"""Below it, starting a Spark application takes longer than the work."""


class PhaseRunner(Protocol):
    """Runs the phases that have many tasks."""

    @property
    def cores(self) -> int | None:
        """Number of tasks that run at once; None if only the pipeline's configuration knows it."""

    @property
    def advice(self) -> Sequence[str]:
        """Sentences on settings that an operator may want to change; none if all is well."""

    def check_engine(self) -> None:
        """Proves that the phases can run here; changes nothing."""

    def check_session(self, session: PipelineSession) -> None:
        """Proves that the phases can read the table and be given what opens it; changes nothing."""

    def run(self, phase: Phase, reference: BatchReference) -> None:
        """Runs one phase of a batch; repeating it redoes only the missing results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPhases:
    """Threads of this process."""

    report_progress: Callable[[int, int], None] | None = None

    @property
    def cores(self) -> int | None:
        """None: the planner counts the cores of the machine."""
        return None

    @property
    def advice(self) -> Sequence[str]:
        return ()

    def check_engine(self) -> None:
        """Nothing is needed."""

    def check_session(self, session: PipelineSession) -> None:
        """Nothing: phases read from the machine that planned."""

    def run(self, phase: Phase, reference: BatchReference) -> None:
        memory_bytes = reference.settings.pipeline.shuffle.memory_bytes
        engine = LocalEngine(memory_bytes=memory_bytes, report_progress=self.report_progress)
        run_phase(phase, reference, engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasesBySize:
    """Spark applications, except for phases that are too small for one."""

    pipeline: Pipeline
    spark: SparkSubmit
    local: LocalPhases

    @property
    def cores(self) -> int | None:
        return self.spark.cores

    @property
    def advice(self) -> Sequence[str]:
        return self.spark.advice

    def check_engine(self) -> None:
        """Proves that Spark can run here: a later batch may be large."""
        self.spark.check_engine()

    def check_session(self, session: PipelineSession) -> None:
        self.spark.check_session(session)

    def run(self, phase: Phase, reference: BatchReference) -> None:
        is_small = runs_in_process(self.pipeline, phase, lambda: reference)
        runner: PhaseRunner = self.local if is_small else self.spark
        runner.run(phase, reference)


def phase_runner(
    pipeline: Pipeline, environ: Mapping[str, str], *, report_progress: Callable[[int, int], None] | None = None
) -> PhaseRunner:
    """The runner of the phases of an expanded pipeline, by its ``engine``."""
    local = LocalPhases(report_progress=report_progress)
    if pipeline.engine == "local":
        return local
    return PhasesBySize(pipeline=pipeline, spark=SparkSubmit.of(pipeline, environ=environ), local=local)


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
