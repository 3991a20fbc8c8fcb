"""The arguments of spark-submit for one phase, for Airflow and the command line."""

import hashlib
import logging
import os
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from icefloe.engines.spark.master import SparkMaster, runs_in_driver
from icefloe.engines.spark.spark_conf import driver_environment, spark_conf
from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.pipeline.model import Pipeline
from icefloe.redaction.hidden import redacted_foreign
from icefloe.storage.local_folders import on_local_disk
from icefloe.threads import BegunThread

if TYPE_CHECKING:
    from icefloe.batch.context.session import PipelineSession

__all__ = ["SPARK_JOBS", "SparkApplication", "check_session", "refuse_pipeline"]

logger = logging.getLogger(__name__)

_VARIABLE: Final = "ICEFLOE_SUBMITTER_PID"
_SCOPE_VARIABLE: Final = "ICEFLOE_SUBMITTER_SCOPE"
_LOOK_SECONDS: Final = 1.0
_EXIT_CODE: Final = 75
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE: Final = Path("/proc/self/ns/pid")


def submitter_variables() -> dict[str, str]:
    """The environment by which an application knows this process."""
    return {_VARIABLE: str(os.getpid()), _SCOPE_VARIABLE: _scope()}


def end_with_submitter(environ: Mapping[str, str], *, end: Callable[[int], object] = os._exit) -> None:
    """Ends this process, and with it Spark, within two seconds of its submitter's end, with exit code 75.

    icefloe submits in client mode only, so both are on one machine. A submitter outside of this container is not looked
    for. One that is gone from the start was killed while the JVM started.
    """
    pid = int(environ.get(_VARIABLE, "0"))
    if pid > 0 and _is_there(pid):
        BegunThread(target=lambda: _watch(pid, end), name="submitter", daemon=True).start()
    elif pid > 0 and environ.get(_SCOPE_VARIABLE) and environ[_SCOPE_VARIABLE] == _scope():
        _end_without(pid, end)


def _watch(pid: int, end: Callable[[int], object]) -> None:
    while _is_there(pid):
        time.sleep(_LOOK_SECONDS)
    _end_without(pid, end)


def _end_without(pid: int, end: Callable[[int], object]) -> None:
    with suppress(Exception):  # the pipe of the log may be gone with its reader
        logger.error("process %d, which submitted this application, is gone: the application ends", pid)
    end(_EXIT_CODE)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it belongs to another user
    return True


def _scope() -> str:
    """The boot and container of process numbers; "" if unknown."""
    try:
        return f"{_BOOT.read_text().strip()} {_NAMESPACE.readlink()}"
    except OSError:
        return ""  # not Linux


_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_PACKAGE: Final = Path(__file__).parents[2]


def link_package(folder: Path, *, package: Path = _PACKAGE) -> Path:
    """Makes a folder for the search path, with nothing in it but a link to a package.

    Each process would compile modules in a zip again, and the package's own folder may hide other modules of the same
    name.
    """
    path = folder / "packages"
    path.mkdir()
    (path / package.name).symlink_to(package)
    return path


def build_package_zip(folder: Path, *, package: Path = _PACKAGE) -> Path:
    """Zips a package into ``folder``, named by the hash of its contents.

    Equal sources give an equal name and equal bytes.
    """
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    sources = sorted((f"{package.name}/{path.relative_to(package).as_posix()}", path.read_bytes()) for path in files)
    digest = hashlib.sha256()
    for name, data in sources:
        # Bytes alone would not say where one file ends and the next begins.
        digest.update(f"{len(name)}:{name}:{len(data)}:".encode() + data)
    path = folder / f"{package.name}-{digest.hexdigest()[:16]}.zip"
    with ZipFile(path, "w", compression=ZIP_DEFLATED) as archive:
        for name, data in sources:
            entry = ZipInfo(name, date_time=_EPOCH)
            entry.compress_type, entry.external_attr = ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    return path


SPARK_JOBS: Final = Path(__file__).parents[4] / "spark_jobs"
ATTEMPT_VARIABLE: Final = "ICEFLOE_ATTEMPT"
"""The environment variable that names the attempt, and so its error document."""


_ASIDE: Final = re.compile(r"\s*at \S+\(|\s+at |\s*\.\.\. \d+ more|\d\d/\d\d/\d\d \S+ INFO ")
"""A line of a Java stack trace below its message, or what Spark says while it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkApplication:
    """One attempt of a phase.

    Attributes:
        py_files: the library, zipped; None: it is on the search path of this machine.
        environment: of spark-submit and the driver; the only place that holds credentials.
        attempt: names the error document of a failed application, next to the plan.
    """

    path: Path
    name: str
    py_files: Path | None
    conf: Mapping[str, str]
    environment: Mapping[str, str] = field(repr=False)
    attempt: str

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        phase: str,
        *,
        master: SparkMaster,
        folder: Path,
        environ: Mapping[str, str],
        credentials: Mapping[str, str],
    ) -> Self:
        """An attempt with a name of its own."""
        attempt = uuid.uuid4().hex
        added = {**credentials, **submitter_variables(), ATTEMPT_VARIABLE: attempt}
        conf = spark_conf(
            pipeline.spark.conf,
            master=master,
            memory_bytes=pipeline.shuffle.memory_bytes,
            warehouse=folder / "warehouse",
            environ=environ,
        )
        with on_local_disk(f"the library cannot be laid ready for Spark in {folder}"):
            packages = link_package(folder) if runs_in_driver(master.url) else None
            py_files = build_package_zip(folder) if packages is None else None
        environment = driver_environment(environ, added, master=master, packages=packages)
        return cls(
            path=SPARK_JOBS / f"{phase}.py",
            name=f"icefloe {pipeline.name} {phase}",
            py_files=py_files,
            conf=conf,
            environment=environment,
            attempt=attempt,
        )

    def unstarted_error(self, cause: OSError) -> TransientError:
        """The error that the system did not start spark-submit, although it is there."""
        return TransientError(
            f"spark-submit of {self.path.stem} could not be started ({one_line(cause)}): this machine may have no "
            "memory or processes left, so run again; of too long arguments, shorten the certificates or the filter"
        )

    def silent_error(self, exit_code: int, last_lines: Sequence[str]) -> TransientError:
        """The error that it failed and left no error document."""
        lines = (redacted_foreign(line) for line in reversed(last_lines))
        told = (line.strip() for line in lines if line.strip() and not _ASIDE.match(line))
        return TransientError(
            f"spark-submit of {self.path.stem} ended with exit code {exit_code} and left no error document; it last "
            f"said: {next(told, 'nothing')}"
        )


def refuse_pipeline(pipeline: Pipeline, master: SparkMaster, *, jobs: Path = SPARK_JOBS) -> None:
    """Stops a pipeline whose jobs could not begin here, or would write to their workers' own disks."""
    if not jobs.is_dir():
        raise TerminalError(
            f"the Spark applications of icefloe are not in {jobs}: put the folder spark_jobs of its repository there, "
            "next to plugins, or set engine: local",
            path=str(jobs),
        )
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


def check_session(session: "PipelineSession", master: SparkMaster) -> None:
    """Stops a batch whose jobs could not read the table."""
    pipeline = session.pipeline
    urls = {f"the location of {pipeline.table}": session.table.location()}
    master.check_reach(urls, storage_is_shared=pipeline.storage_is_shared)
