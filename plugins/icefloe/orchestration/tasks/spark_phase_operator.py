"""The operator of phases of many tasks, by spark-submit or in this process."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from icefloe.flow import FlowTask, Phase
from icefloe.memory_pool import share_heap
from icefloe.orchestration.tasks.failures import airflow_failures
from icefloe.orchestration.tasks.plugin_parts import BatchLink
from icefloe.orchestration.tasks.task_documents import beside, given_by_plan
from icefloe.pipeline.model import Pipeline

if TYPE_CHECKING:
    from icefloe.engines.phase_runner import PhaseRunner


__all__ = ["SparkPhaseOperator"]


class SparkPhaseOperator(BaseOperator):
    """Runs one phase of the batch that the run's plan task opened.

    The application gets one argument, the plan's URI. Credentials are read when the task runs and reach the driver in
    its environment only.

    Args:
        pipeline: its ``engine`` and the batch's size may run the phase without spark-submit.
        phase: insert_only, shuffle_write, shuffle_read or deliver; also the name of the application's file.
    """

    operator_extra_links = (BatchLink(),)
    _phases: "PhaseRunner | None" = None
    _is_ended = False

    def __init__(self, *, pipeline: Pipeline, phase: str, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.phase = phase

    def execute(self, context: Context) -> None:
        """Runs the phase; a terminal error fails the task at once."""
        # This process reads rows if the engine is local.
        share_heap(os.environ)
        pulled = context["ti"].xcom_pull(task_ids=beside(self.task_id, "plan"))
        with airflow_failures(self.phase, self.pipeline):
            plan_result = given_by_plan(pulled)
            from icefloe.batch.context.references import BatchFinished, ends_well_if_finished
            from icefloe.orchestration.tasks.calls import phases_of, reference_of, skip_other_route

            if not plan_result["plan_uri"]:
                raise AirflowSkipException("no batch")
            skip_other_route(FlowTask(self.phase), plan_result)
            reference = reference_of(self.pipeline, plan_result)
            with suppress(BatchFinished), ends_well_if_finished(reference):
                self._phases = phases_of(self.pipeline)
                if self._is_ended:
                    self._phases.end()
                self._phases.run(Phase(self.phase), reference)

    def on_kill(self) -> None:
        """Ends spark-submit with driver and executors, or keeps a job from beginning."""
        # Airflow calls this and lets the task go on, for seconds: long enough for a job that nobody waits for.
        self._is_ended = True
        if self._phases is not None:
            self._phases.end()
