"""The operator of phases of many tasks, by spark-submit or in this process."""

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from icefloe.engines.spark.application import SPARK_JOBS, SparkApplication
from icefloe.errors import TerminalError, TransientError
from icefloe.flow import FlowTask
from icefloe.memory_pool import share_heap
from icefloe.orchestration.connections import usable_master
from icefloe.orchestration.tasks.failures import airflow_failures
from icefloe.orchestration.tasks.plugin_parts import BatchLink
from icefloe.orchestration.tasks.task_documents import PlanResult, given_by_plan
from icefloe.pipeline.model import Pipeline
from icefloe.redaction.hidden import redacted_foreign
from icefloe.storage.local_folders import task_folder

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


__all__ = ["SparkPhaseOperator"]

_PLAN_URI: Final = "{{ (ti.xcom_pull(task_ids='plan') or {}).get('plan_uri') }}"


_LEVELS: Final = ("debug", "info", "warning", "error", "exception", "critical")


class RedactedLog:
    """Writes to a hook's logger, without the values that this process hides.

    Hooks log by structlog, which bypasses the handlers that `outgoing_logs` filters.
    """

    def __init__(self, log: Any) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        """A method of the logger, with hidden values taken out of its arguments."""
        method = getattr(self._log, name)
        if name not in _LEVELS:
            return method

        def write(event: object, *arguments: object, **values: object) -> object:
            hidden = {key: redacted_foreign(each) if isinstance(each, str) else each for key, each in values.items()}
            # Without arguments a % is no more than a character, here as in structlog.
            return method(redacted_foreign(_text(event, arguments)).replace("\n", "\\n"), **hidden)

        return write


def _text(event: object, arguments: tuple[object, ...]) -> str:
    try:
        return str(event) % arguments if arguments else str(event)
    except (TypeError, ValueError):
        return f"{event} {arguments}"


class SparkPhaseOperator(SparkSubmitOperator):
    """Runs one phase of the batch that the run's plan task opened.

    The application gets one argument, the plan's URI. Credentials are read when the task runs and reach the driver in
    its environment only: not as ``env_vars``, which Airflow renders and YARN and Kubernetes turn into configuration.

    Args:
        pipeline: its ``engine`` and the batch's size may run the phase without spark-submit.
        phase: insert_only, shuffle_write, shuffle_read or deliver; also the name of the application's file.
    """

    template_fields = ("application_args",)
    _is_ended = False
    operator_extra_links = (*SparkSubmitOperator.operator_extra_links, BatchLink())

    def __init__(self, *, pipeline: Pipeline, phase: str, **kwargs: object) -> None:
        super().__init__(
            application=str(SPARK_JOBS / f"{phase}.py"),
            application_args=[_PLAN_URI],
            conn_id=pipeline.spark.conn_id,
            name=f"icefloe {pipeline.name} {phase}",
            **kwargs,
        )
        self.pipeline = pipeline
        self.phase = phase

    def execute(self, context: Context) -> None:
        """Runs the phase; a terminal error fails the task at once."""
        # This process reads rows if the engine is local.
        share_heap(os.environ)
        pulled = context["ti"].xcom_pull(task_ids="plan")
        with airflow_failures(self.phase, self.pipeline):
            plan_result = given_by_plan(pulled)
            from icefloe.batch.context.references import BatchFinished
            from icefloe.orchestration.tasks.calls import (
                finished_elsewhere,
                run_phase_here,
                runs_here,
                skip_other_route,
            )

            if not plan_result["plan_uri"]:
                raise AirflowSkipException("no batch")
            skip_other_route(FlowTask(self.phase), plan_result)
            pipeline = self.pipeline.expanded(os.environ)
            with suppress(BatchFinished), finished_elsewhere(pipeline, plan_result):
                if runs_here(pipeline, self.phase, plan_result):
                    run_phase_here(pipeline, self.phase, plan_result)
                else:
                    self._submit(pipeline, plan_result)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> "OperatorLineage":
        """The table and the sink, for OpenLineage's provider."""
        from icefloe.orchestration.tasks.calls import places_of
        from icefloe.orchestration.telemetry import phase_lineage

        plan_result = task_instance.xcom_pull(task_ids="plan")
        return phase_lineage(places_of(self.pipeline.expanded(os.environ), self.phase, plan_result))

    def on_kill(self) -> None:
        """Ends spark-submit with driver and executors, or keeps a job from beginning."""
        self._is_ended = True
        if self._hook is not None:
            self._hook.on_kill()

    def _submit(self, pipeline: Pipeline, plan_result: PlanResult) -> None:
        from icefloe.orchestration.tasks.calls import driver_environment_of

        master = usable_master(pipeline)
        with task_folder("submit") as folder:
            application = SparkApplication.of(
                pipeline,
                self.phase,
                master=master,
                folder=folder,
                environ=os.environ,
                credentials=driver_environment_of(pipeline, plan_result),
            )
            self.py_files = None if application.py_files is None else str(application.py_files)
            self.conf = dict(application.conf)
            self._conn_id = pipeline.spark.conn_id
            self._hook = self._get_hook()
            # Each line of the job, and its command, passes this log.
            self._hook._log = RedactedLog(self._hook.log)  # noqa: SLF001 - Airflow's place for a logger of one's own
            # Airflow calls on_kill and lets the task go on, for seconds: long enough for a job that nobody waits for.
            if self._is_ended:
                raise TransientError(f"{self.phase} was ended from outside before its Spark job began: run it again")
            try:
                self._hook.submit(self.application, env=dict(application.environment))
            except FileNotFoundError as failure:
                raise TerminalError(
                    f"{self._hook.spark_binary} is found neither next to {sys.executable} nor on the path: install "
                    "pyspark where Airflow's workers run, or set engine: local"
                ) from failure
            except OSError as failure:
                raise application.unstarted_error(failure) from failure
            except AirflowException as failure:
                self._raise_error_of_job(pipeline, plan_result, application, failure)

    def _raise_error_of_job(
        self, pipeline: Pipeline, plan_result: PlanResult, application: SparkApplication, failure: AirflowException
    ) -> NoReturn:
        from icefloe.orchestration.tasks.calls import read_job_error

        error = read_job_error(pipeline, plan_result, self.phase, application.attempt)
        if error is None:
            raise application.silent_error(*self._end_of_job()) from failure
        raise error.as_error() from failure

    def _end_of_job(self) -> tuple[int, list[str]]:
        process = getattr(self._hook, "_submit_sp", None)
        code = getattr(process, "returncode", None)
        return code or 1, list(getattr(self._hook, "_last_submit_log_lines", ()))
