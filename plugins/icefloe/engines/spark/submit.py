"""Phases as Spark applications that this process starts and waits for."""

import logging
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.task_attempt import FailedAttempt
from icefloe.engines.spark.application import SparkApplication, refuse_pipeline
from icefloe.engines.spark.master import SparkMaster, configured_master
from icefloe.engines.spark.spark_conf import driver_environment, spark_advice, spark_conf
from icefloe.errors import TerminalError
from icefloe.flow import Phase
from icefloe.pipeline.model import Pipeline
from icefloe.redaction.hidden import redacted_foreign
from icefloe.storage.local_folders import task_folder

__all__ = ["SparkSubmit"]

logger = logging.getLogger(__name__)

_LAST_LINES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSubmit:
    """Runs each phase by spark-submit, in client mode, as the Airflow operator does."""

    pipeline: Pipeline
    master: SparkMaster
    environ: Mapping[str, str]

    @classmethod
    def of(cls, pipeline: Pipeline, *, environ: Mapping[str, str]) -> Self:
        """The jobs of a pipeline, on the master of ``spark.conf``, otherwise on all cores."""
        master = configured_master(pipeline.spark.conf)
        refuse_pipeline(pipeline, master)
        return cls(pipeline=pipeline, master=master, environ=environ)

    @property
    def advice(self) -> Sequence[str]:
        """Advice on Spark settings; see `spark_advice`."""
        return spark_advice(self.pipeline.spark.conf, master=self.master, environ=self.environ)

    def check_engine(self) -> None:
        """Proves that a job could be started here; starts none."""
        spark_conf(
            self.pipeline.spark.conf,
            master=self.master,
            memory_bytes=self.pipeline.shuffle.memory_bytes,
            warehouse=Path(tempfile.gettempdir()),
            environ=self.environ,
        )
        _spark_submit(driver_environment(self.environ, {}, master=self.master))

    def run(self, phase: Phase, reference: BatchReference) -> None:
        """Runs one phase and waits for it."""
        with task_folder("submit") as folder:
            application = SparkApplication.of(
                self.pipeline,
                phase,
                master=self.master,
                folder=folder,
                environ=self.environ,
                credentials=reference.to_environment(),
            )
            command = self._command(application, reference.plan_url)
            try:
                exit_code, last_lines = _run(command, application.environment)
            except OSError as cause:
                raise application.unstarted_error(cause) from cause
        if exit_code:
            found = FailedAttempt.load(reference, phase, application.attempt)
            raise application.silent_error(exit_code, last_lines) if found is None else found.as_error()

    def _command(self, application: SparkApplication, plan_url: str) -> list[str]:
        spark_submit = _spark_submit(application.environment)
        settings = [part for key, value in application.conf.items() for part in ("--conf", f"{key}={value}")]
        py_files = [] if application.py_files is None else ["--py-files", str(application.py_files)]
        return [
            spark_submit, "--master", self.master.url, *settings, "--name", application.name,
            *py_files, str(application.path), plan_url,
        ]  # fmt: skip


def _spark_submit(environment: Mapping[str, str]) -> str:
    found = shutil.which("spark-submit", path=environment["PATH"])
    if found is None:
        raise TerminalError("spark-submit is not on the path: install pyspark, or use --engine local")
    return found


def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, list[str]]:
    """Exit code and last lines of the output, which goes to the log."""
    last_lines: deque[str] = deque(maxlen=_LAST_LINES)
    with subprocess.Popen(  # noqa: S603 - no shell; the arguments are ours and the pipeline file's
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", errors="replace",
    ) as process:  # fmt: skip
        try:
            for printed in process.stdout or ():
                line = redacted_foreign(printed).rstrip()
                logger.info("spark-submit: %s", line)
                last_lines.append(line)
        except BaseException:
            # Otherwise leaving this block would wait for the job to end.
            process.terminate()
            raise
    return process.returncode, list(last_lines)
