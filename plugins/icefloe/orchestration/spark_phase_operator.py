"""The operator of the phases that run as many tasks: spark-submit, or the same functions in this process."""

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException

from icefloe.engines.java import refuse_other_java
from icefloe.engines.spark_application import SPARK_JOBS, SparkApplication
from icefloe.errors import TerminalError
from icefloe.orchestration.connections import resolve_credentials
from icefloe.orchestration.failures import clear_failures
from icefloe.orchestration.page.batch_link import BatchLink
from icefloe.orchestration.spark_connection import usable_master
from icefloe.pipeline.model import Pipeline

if TYPE_CHECKING:
    from icefloe.batch.credentials import Credentials

__all__ = ["SparkPhaseOperator"]

_PLAN_URI: Final = "{{ ti.xcom_pull(task_ids='plan')['plan_uri'] }}"


class SparkPhaseOperator(SparkSubmitOperator):
    """Runs one phase of the batch that the run's plan task opened.

    The application gets one argument, the plan's URI. Credentials are read when the task runs and reach the driver in
    its environment only: not as ``env_vars``, which Airflow renders and YARN and Kubernetes turn into configuration.

    Args:
        pipeline: whose batch it is; ``engine: local`` runs the phase without spark-submit.
        phase: insert_only, shuffle_write or shuffle_read; also the name of the application's file.
    """

    template_fields = ("application_args",)
    operator_extra_links = (*SparkSubmitOperator.operator_extra_links, BatchLink())

    def __init__(self, *, pipeline: Pipeline, phase: str, **kwargs: Any) -> None:
        super().__init__(
            application=str(SPARK_JOBS / f"{phase}.py"),
            application_args=[_PLAN_URI],
            conn_id=pipeline.spark.conn_id,
            name=f"icefloe {pipeline.name} {phase}",
            **kwargs,
        )
        self.pipeline = pipeline
        self.phase = phase

    def execute(self, context: Context) -> None:  # noqa: ARG002 - the signature is Airflow's
        """Runs the phase; an error that retrying cannot fix fails the task at once."""
        from icefloe.orchestration.use_cases import run_phase_here

        plan_uri = self.application_args[0]
        with clear_failures(self.phase, self.pipeline):
            pipeline = self.pipeline.expanded(os.environ)
            if pipeline.engine == "local":
                run_phase_here(pipeline, self.phase, plan_uri)
            else:
                self._submit(pipeline, plan_uri)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002 - the name is OpenLineage's
        """The table and the sink, where OpenLineage's provider is installed; nobody calls it elsewhere."""
        from icefloe.orchestration.lineage import phase_lineage
        from icefloe.orchestration.use_cases import places_of

        places = places_of(self.pipeline.expanded(os.environ), self.application_args[0])
        return phase_lineage(places, is_delivering=self.phase != "shuffle_write")

    def on_kill(self) -> None:
        """Ends spark-submit, and with it driver and executors."""
        if self._hook is not None:
            self._hook.on_kill()

    def _submit(self, pipeline: Pipeline, plan_uri: str) -> None:
        master = usable_master(pipeline)
        credentials = resolve_credentials(pipeline)
        with tempfile.TemporaryDirectory(prefix="icefloe-submit-") as folder:
            application = SparkApplication.of(
                pipeline,
                self.phase,
                master=master,
                folder=Path(folder),
                environ=os.environ,
                credentials=credentials.to_environment(),
            )
            refuse_other_java(application.environment)
            self.py_files = str(application.py_files)
            self.conf = dict(application.conf)
            self._conn_id = pipeline.spark.conn_id
            self._hook = self._get_hook()
            try:
                self._hook.submit(self.application, env=dict(application.environment))
            except FileNotFoundError as failure:
                raise TerminalError(
                    f"{self._hook.spark_binary} is found neither beside {sys.executable} nor on the path: install "
                    "pyspark where Airflow's workers run, or set engine: local"
                ) from failure
            except AirflowException as failure:
                self._raise_error_of_job(credentials, plan_uri, application.attempt, failure)

    def _raise_error_of_job(
        self, credentials: "Credentials", plan_uri: str, attempt: str, failure: AirflowException
    ) -> NoReturn:
        from icefloe.orchestration.use_cases import read_job_error

        error = read_job_error(credentials, self.phase, plan_uri, attempt)
        if error is None:
            self.log.error("%s: the Spark job ended without saying why; its last lines stand above", self.phase)
            raise failure
        raise error.as_error() from failure
