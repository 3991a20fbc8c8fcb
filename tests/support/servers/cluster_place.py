"""A Spark cluster with everything else on S3 and in a REST catalog: pipelines for it, and its workers in the middle."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from icefloe.batch.run_settings import Credentials
from make.worker_environment import build_archive
from support.pipelines.flights_on_s3 import Flights
from support.servers.spark_cluster import QUICK_START, SparkCluster, SparkWorker

__all__ = ["ClusterPlace", "IcefloeRun", "WorkerEnvironment", "held", "shuffle_folder", "shuffle_folders"]


@dataclass(frozen=True)
class WorkerEnvironment:
    """Made when a test asks for it; one is enough for all clusters."""

    folder: Path

    @cached_property
    def archive(self) -> Path:
        """The environment as what `make env` calls packs it."""
        return build_archive(self.folder / "archive", compression=1)[0]

    @cached_property
    def python(self) -> Path:
        """Its Python, unpacked where an image would have it."""
        environment = self.folder / "environment"
        with tarfile.open(self.archive) as packed:
            packed.extractall(environment, filter="data")
        return environment / "bin" / "python"


ROOT: Final = Path(__file__).parents[3]
_SECONDS: Final = 240


class IcefloeRun:
    """Starts it with all that it starts in a process group of its own; a context manager that leaves nothing behind.

    Args:
        pipeline: the file.
        folder: of its log.
        environ: further variables.

    Attributes:
        began: time of its start, in seconds since 1970.
    """

    def __init__(self, pipeline: Path, *, folder: Path, environ: Mapping[str, str]) -> None:
        self._command = [sys.executable, "-m", "icefloe", "run", str(pipeline), "--json"]
        here = {"PYTHONPATH": str(ROOT / "plugins"), "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(folder)}
        self._environ = {**os.environ, **here, **environ}
        self._log = folder / f"{pipeline.stem}.log"
        self.began = 0.0

    def __enter__(self) -> Self:
        self.began = time.time()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=self._environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()

    def when(self, condition: Callable[[], Any]) -> Any:
        """The first true value of a condition; fails where the run ends before."""
        deadline = time.monotonic() + _SECONDS
        while not (found := condition()):
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.01)
        return found

    def kill(self) -> None:
        """SIGKILL for the run, its spark-submit and its driver."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def document(self) -> dict[str, Any]:
        """Waits for the end, which must be a good one; the JSON object that it prints."""
        out, _ = self._process.communicate(timeout=_SECONDS)
        assert self._process.returncode == 0, self.log
        return json.loads(out.splitlines()[-1])

    def failure(self) -> tuple[int, str]:
        """Waits for the end, which must be a bad one; the exit code and the sentence."""
        self._process.communicate(timeout=_SECONDS)
        assert self._process.returncode != 0, self.log
        return self._process.returncode, self.log.splitlines()[-1].removeprefix("icefloe: ")

    @property
    def log(self) -> str:
        """Its output on standard error."""
        return self._log.read_text(errors="replace")


@dataclass(kw_only=True)
class ClusterPlace:
    """A cluster, a folder for what a test writes, and the environment of the cluster's Python tasks."""

    cluster: SparkCluster
    folder: Path
    environment: WorkerEnvironment

    def conf(self, further: Mapping[str, Any] | None = None, *, python: str | Path | None = None) -> dict[str, Any]:
        """The configuration of a pipeline whose tasks run on the cluster.

        Args:
            further: settings in addition.
            python: of the tasks; None: the unpacked one.
        """
        return {
            "spark.master": self.cluster.url,
            "spark.pyspark.python": str(python or self.environment.python),
            "spark.local.dir": str(self.folder / "driver"),
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": 1,
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.executor.extraJavaOptions": QUICK_START,
            **(further or {}),
        }

    def pipeline(self, flights: Flights, stem: str, **keys: Any) -> Path:
        """A pipeline file whose batches have many tasks."""
        written = {
            "identifier_columns": ["flight_id"],
            "sink": {"type": "files", "path": f"s3://{flights.name}/changes", "conn_id": "lake_s3"},
            "shuffle": {"map_task_bytes": 1, "partitions": 64, "target_size_bytes": 1},
            "spark": {"conf": self.conf({"spark.cores.max": 2})},
        }
        return flights.write_pipeline(self.folder, stem, **{**written, **keys})

    def run(self, flights: Flights, pipeline: Path, **environ: str) -> IcefloeRun:
        """With credentials as an operator hands them over: the workers have none of their own."""
        store = flights.store
        credentials = Credentials(
            catalog_properties={"type": "rest", "uri": flights.catalog.uri, **store.file_io},
            storage_options=store.options,
            sink_options=store.options,
        )
        given = {"SPARK_CONF_DIR": str(self.cluster.conf_folder), **credentials.to_environment(), **environ}
        return IcefloeRun(pipeline, folder=self.folder, environ=given)


def shuffle_folders(flights: Flights, stem: str) -> Path:
    """Those of all batches of a pipeline, below a folder that is called after the checkpoint."""
    return flights.store.folder / "data" / flights.name / "icefloe" / "shuffle" / stem


def shuffle_folder(flights: Flights, stem: str, batch: int) -> Path:
    """The files between the phases of a batch, once it is planned."""
    [folder] = shuffle_folders(flights, stem).glob(f"*/{batch}")
    return folder


@contextmanager
def held(worker: SparkWorker) -> Iterator[None]:
    """Holds the Python of a worker, and with it the phase, for its task does not end meanwhile."""
    pids: set[int] = set()
    try:
        # Spark's daemon may start another Python between the look and the signal.
        while further := worker.pythons().keys() - pids:
            pids |= further
            for pid in further:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
