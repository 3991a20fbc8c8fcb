"""Phases as Spark applications that this process starts and waits for."""

import logging
import shutil
import subprocess
import tempfile
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from icefloe.batch.context import TaskReference
from icefloe.batch.job_error import load_job_error
from icefloe.batch.phases import Phase
from icefloe.engines.package_zip import build_package_zip
from icefloe.engines.spark_job import ATTEMPT_VARIABLE
from icefloe.engines.spark_master import SparkMaster, configured_master, refuse_local_storage
from icefloe.engines.spark_settings import driver_environment, spark_conf
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.pipeline.model import Pipeline

__all__ = ["SPARK_JOBS", "SparkSubmit"]

logger = logging.getLogger(__name__)

SPARK_JOBS: Final = Path(__file__).parents[3] / "spark_jobs"
_LAST_LINES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSubmit:
    """Runs each phase by spark-submit, in client mode, as the Airflow operator does.

    Attributes:
        pipeline: expanded.
        master: where the jobs run.
        environ: of this process.
    """

    pipeline: Pipeline
    master: SparkMaster
    environ: Mapping[str, str]

    @classmethod
    def of(cls, pipeline: Pipeline, *, environ: Mapping[str, str]) -> Self:
        """The jobs of a pipeline, on the master that its ``spark.conf`` names, else on all cores of this machine.

        Raises:
            SparkConnectionError: no known form of master, or a deploy mode other than client.
            TerminalError: the pipeline keeps files on a disk that the master's workers do not share.
        """
        master = configured_master(pipeline.spark.conf)
        urls = {"storage": pipeline.storage, "checkpoint": pipeline.checkpoint_url, "sink.path": pipeline.sink.path}
        refuse_local_storage(urls, master, storage_is_shared=pipeline.storage_is_shared)
        return cls(pipeline=pipeline, master=master, environ=environ)

    @property
    def cores(self) -> int | None:
        """Those of the master, where it says."""
        return self.master.cores

    def run(self, phase: Phase, reference: TaskReference) -> None:
        """Runs one phase and waits for it.

        Raises:
            TerminalError: what the job says of itself, where retrying cannot help, or there is no spark-submit.
            TransientError: what the job says of itself, or it died without a word.
        """
        attempt = uuid.uuid4().hex
        handed_over = {**reference.credentials.to_environment(), ATTEMPT_VARIABLE: attempt}
        environment = driver_environment(self.environ, handed_over, master=self.master)
        with tempfile.TemporaryDirectory(prefix="icefloe-submit-") as folder:
            command = self._command(phase, reference.plan_url, Path(folder), search_path=environment["PATH"])
            exit_code, last_lines = _run(command, environment)
        if exit_code:
            raise _error_of_job(phase, attempt, reference, exit_code, last_lines)

    def _command(self, phase: Phase, plan_url: str, folder: Path, *, search_path: str) -> list[str]:
        spark_submit = shutil.which("spark-submit", path=search_path)
        application = SPARK_JOBS / f"{phase}.py"
        if spark_submit is None or not application.is_file():
            missing = "spark-submit is not on the path" if spark_submit is None else f"{application} is not there"
            raise TerminalError(f"{missing}: install pyspark and run icefloe from its folder, or use --engine local")
        conf = spark_conf(
            self.pipeline.spark.conf,
            master=self.master,
            memory_bytes=self.pipeline.shuffle.memory_bytes,
            warehouse=folder / "warehouse",
        )
        settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
        name = f"icefloe {self.pipeline.name} {phase}"
        zipped = str(build_package_zip(folder))
        return [
            spark_submit, "--master", self.master.url, *settings, "--name", name, "--py-files", zipped,
            str(application), plan_url,
        ]  # fmt: skip


def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, list[str]]:
    """The exit code and the last lines of what was printed; all of it goes to the log."""
    last_lines: deque[str] = deque(maxlen=_LAST_LINES)
    with subprocess.Popen(  # noqa: S603 - no shell; the arguments are ours and the pipeline file's
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", errors="replace",
    ) as process:  # fmt: skip
        try:
            for line in process.stdout or ():
                logger.info("spark-submit: %s", line.rstrip())
                last_lines.append(line.rstrip())
        except BaseException:
            process.terminate()
            raise
    return process.returncode, list(last_lines)


def _error_of_job(
    phase: Phase, attempt: str, reference: TaskReference, exit_code: int, last_lines: Sequence[str]
) -> IcefloeError:
    found = load_job_error(reference.plan_url, phase, attempt, credentials=reference.credentials)
    if found is not None:
        return found.as_error()
    said = next((line for line in reversed(last_lines) if line.strip()), "nothing")
    return TransientError(
        f"spark-submit of {phase} ended with exit code {exit_code} and left no error document; it last said: {said}",
        exit_code_of_job=exit_code,
        last_lines=tuple(last_lines),
    )
