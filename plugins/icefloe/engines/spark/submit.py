"""Phases as Spark applications that this process starts and waits for."""

import logging
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self
from zipfile import ZIP_DEFLATED, ZipFile

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.context.task_attempt import FailedAttempt
from icefloe.engines.spark.job import ATTEMPT_VARIABLE, SUBMITTER_VARIABLE, TRIAL
from icefloe.engines.spark.master import (
    SparkMaster,
    configured_master,
    driver_environment,
    runs_in_driver,
    spark_conf,
    spark_release,
)
from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.flow import Phase
from icefloe.pipeline.model import Pipeline
from icefloe.redaction.hidden import redacted_foreign
from icefloe.storage.local_folders import on_local_disk, task_folder

__all__ = ["SparkSubmit", "build_package_zip"]

logger = logging.getLogger(__name__)

_LAST_LINES: Final = 100
_ASIDE: Final = re.compile(r"\s*at \S+\(|\s+at |\s*\.\.\. \d+ more|\d\d/\d\d/\d\d \S+ INFO ")
"""A line of a Java stack trace below its message, or what Spark says while it ends."""
_PACKAGE: Final = Path(__file__).parents[2]
_SPARK_JOBS: Final = Path(__file__).parents[4] / "spark_jobs"
_OF_PACKAGE: Final = Path(__file__).parent / "application" / "phase_application.py"


@dataclass(slots=True, kw_only=True)
class SparkSubmit:
    """Runs each phase by spark-submit, in client mode. Credentials reach the driver in its environment only."""

    pipeline: Pipeline
    master: SparkMaster
    environ: Mapping[str, str]
    _process: "subprocess.Popen[str] | None" = field(default=None, init=False)
    _is_ended: bool = field(default=False, init=False)

    @classmethod
    def of(cls, pipeline: Pipeline, *, environ: Mapping[str, str], master: SparkMaster | None = None) -> Self:
        """The jobs of a pipeline, whose workers can reach all places.

        Args:
            master: None: that of ``spark.conf``, otherwise all cores of this machine.
        """
        master = master or configured_master(pipeline.spark.conf)
        refuse_pipeline(pipeline, master)
        return cls(pipeline=pipeline, master=master, environ=environ)

    def check_engine(self) -> None:
        """Proves that a job could be started here; starts none."""
        self._conf()
        _spark_submit(driver_environment(self.environ, {}, master=self.master))

    def check_session(self, session: PipelineSession) -> None:
        """Stops a batch whose jobs could not read the table."""
        urls = {f"the location of {self.pipeline.table}": session.table.metadata.location}
        self.master.check_reach(urls, storage_is_shared=self.pipeline.storage_is_shared)

    def run(self, phase: Phase, reference: BatchReference) -> None:
        """Runs one phase and waits for it."""
        attempt = uuid.uuid4().hex
        secrets = {**reference.to_environment(), ATTEMPT_VARIABLE: attempt}
        with task_folder("submit") as folder:
            exit_code, last_lines = self._submit(phase, folder, reference.plan_url, secrets)
        if exit_code:
            found = FailedAttempt.load(reference, phase, attempt)
            raise _silent_error(phase, exit_code, last_lines) if found is None else found.as_error()

    def try_workers(self) -> str:
        """The Spark that jobs get; on other machines, one that has run a task there with the driver's libraries."""
        spark = spark_release(self.environ)
        if runs_in_driver(self.master.url):
            return spark
        with task_folder("submit") as folder:
            said = folder / "said"
            exit_code, last_lines = self._submit(TRIAL, folder, str(said), {})
            if exit_code and not said.is_file():
                raise _silent_error(TRIAL, exit_code, last_lines)
            if exit_code:
                raise (TerminalError if exit_code == TerminalError.exit_code else TransientError)(said.read_text())
        return f"{spark}{',' if self.environ.get('SPARK_HOME') else ''} ran a task on {self.master.url}"

    def _submit(self, job: str, folder: Path, argument: str, secrets: Mapping[str, str]) -> tuple[int, Sequence[str]]:
        """Runs an application; its exit code and last lines."""
        with on_local_disk(f"the library cannot be laid ready for Spark in {folder}"):
            packages = link_package(folder) if runs_in_driver(self.master.url) else None
            py_files = build_package_zip(folder) if packages is None else None
        given = {**secrets, SUBMITTER_VARIABLE: str(os.getpid())}
        environment = driver_environment(self.environ, given, master=self.master, packages=packages)
        command = [
            _spark_submit(environment), "--master", self.master.url,
            *(part for key, value in self._conf().items() for part in ("--conf", f"{key}={value}")),
            "--name", f"icefloe {self.pipeline.name} {job}",
            *(() if py_files is None else ("--py-files", str(py_files))),
            *_application(job), argument,
        ]  # fmt: skip
        if self._is_ended:
            raise TransientError(f"{job} was ended from outside before its Spark job began: run it again")
        try:
            return self._run(command, environment)
        except OSError as cause:
            raise TransientError(
                f"spark-submit of {job} could not be started ({one_line(cause)}): this machine may have no "
                "memory or processes left, so run again; of too long arguments, shorten the certificates or the "
                "filter"
            ) from cause

    def end(self) -> None:
        """Ends the job with driver and executors, or keeps it from beginning."""
        self._is_ended = True
        if self._process is not None:
            self._process.terminate()

    def _conf(self) -> Mapping[str, str]:
        memory_bytes = self.pipeline.shuffle.memory_bytes
        conf = self.pipeline.spark.conf
        return spark_conf(conf, master=self.master, memory_bytes=memory_bytes, environ=self.environ)

    def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, Sequence[str]]:
        """Exit code and last lines of the output, which goes to the log."""
        last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        with subprocess.Popen(  # noqa: S603 - no shell; the arguments are ours and the pipeline file's
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            encoding="utf-8", errors="replace",
        ) as self._process:  # fmt: skip
            if self._is_ended:
                # By another thread, while this one started the process.
                self._process.terminate()
            try:
                for printed in self._process.stdout or ():
                    line = redacted_foreign(printed).rstrip()
                    logger.info("spark-submit: %s", line)
                    last_lines.append(line)
            except BaseException:
                # Otherwise leaving this block would wait for the job to end.
                self._process.terminate()
                raise
        return self._process.returncode, last_lines


def _application(job: str) -> tuple[str, ...]:
    """The file of an application: next to the plugins of a copied repository, otherwise the package's, with its job."""
    copied = _SPARK_JOBS / f"{job}.py"
    return (str(copied),) if copied.is_file() else (str(_OF_PACKAGE), job)


def _spark_submit(environment: Mapping[str, str]) -> str:
    found = shutil.which("spark-submit", path=environment["PATH"])
    if found is None:
        raise TerminalError(
            f"spark-submit is neither next to {sys.executable} nor on the path: install pyspark where tasks run, or "
            "set engine: local"
        )
    return found


def _silent_error(job: str, exit_code: int, last_lines: Sequence[str]) -> TransientError:
    """The error of a job that failed and left no error document."""
    told = (line.strip() for line in reversed(last_lines) if line.strip() and not _ASIDE.match(line))
    return TransientError(
        f"spark-submit of {job} ended with exit code {exit_code} and left no error document; it last said: "
        f"{next(told, 'nothing')}"
    )


def link_package(folder: Path) -> Path:
    """Makes a folder for the search path, with nothing in it but a link to the library."""
    # A zip is compiled again in each process, and the library's own folder may hide other modules of the same name.
    path = folder / "packages"
    path.mkdir()
    (path / _PACKAGE.name).symlink_to(_PACKAGE)
    return path


def build_package_zip(folder: Path) -> Path:
    """Zips the library into a folder, without what this Python compiled of it."""
    path = folder / f"{_PACKAGE.name}.zip"
    # Files of a reproducible image may be older than the format knows.
    with ZipFile(path, "w", compression=ZIP_DEFLATED, strict_timestamps=False) as archive:
        for file in sorted(_PACKAGE.rglob("*")):
            name = file.relative_to(_PACKAGE.parent)
            if file.is_file() and "__pycache__" not in name.parts:
                archive.write(file, name)
    return path


def refuse_pipeline(pipeline: Pipeline, master: SparkMaster) -> None:
    """Stops a pipeline whose jobs could not begin here, or would write to their workers' own disks."""
    for written in filter(None, pipeline.spark.conf.get("spark.archives", "").split(",")):
        path = written.strip().partition("#")[0].removeprefix("file://")
        if ":" not in path and not Path(path).is_file():
            raise TerminalError(
                f"spark.conf names {path} in spark.archives, which is not a file of this machine: build it there by "
                "`make env`, or name a URL that driver and workers can fetch",
                path=path,
            )
    urls = {"storage": pipeline.storage, "checkpoint": pipeline.checkpoint_url}
    # A sink that batches are delivered to has no path.
    urls["changelog.path" if pipeline.delivers else "sink.path"] = pipeline.changes_folder.path
    master.check_reach(urls, storage_is_shared=pipeline.storage_is_shared)
