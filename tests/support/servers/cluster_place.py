"""A Spark cluster with everything else on S3 and in a REST catalog: pipelines for it, and its workers in the middle."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icefloe.batch.credentials import Credentials
from support.pipelines.flights_on_s3 import Flights
from support.servers.icefloe_run import IcefloeRun
from support.servers.spark_cluster import QUICK_START, SparkCluster, SparkWorker
from support.servers.worker_environment import WorkerEnvironment

__all__ = ["ClusterPlace", "busy_workers", "held", "shuffle_folder", "shuffle_folders"]


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


def busy_workers(cluster: SparkCluster) -> list[SparkWorker]:
    """Those whose executors have begun tasks."""
    return [worker for worker in cluster.workers if worker.pythons()]


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
