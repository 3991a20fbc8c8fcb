"""Batches on a real Spark cluster, with everything else on S3 and in a REST catalog."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from icefloe import read_changes
from icefloe.batch.credentials import Credentials
from make.worker_environment import build_archive
from servers.conftest import or_skip
from servers.flights import Flights, counted
from servers.icefloe_run import IcefloeRun
from servers.rest_catalog import RestCatalog
from servers.spark_cluster import SparkCluster, SparkWorker
from servers.versitygw import Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(900)]

FILES = 60


@dataclass(frozen=True, kw_only=True)
class Place:
    """A cluster, what its workers unpack, and a folder for what a test writes down."""

    cluster: SparkCluster
    archive: Path
    folder: Path

    def conf(self, **further: Any) -> dict[str, Any]:
        return {
            "spark.master": self.cluster.url,
            "spark.archives": f"{self.archive}#environment",
            "spark.pyspark.python": "./environment/bin/python",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            **{key.replace("_", "."): value for key, value in further.items()},
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("cluster")
    archive, _ = build_archive(folder / "archive")
    with or_skip(SparkCluster(folder=folder / "spark")) as cluster:
        yield Place(cluster=cluster, archive=archive, folder=folder)


@pytest.fixture(scope="module")
def flights(rest_catalog: RestCatalog, versitygw: Versitygw) -> Flights:
    return Flights.in_small_files("clusterflights", rest_catalog, versitygw, files=FILES)


def run(place: Place, flights: Flights, pipeline: Path) -> IcefloeRun:
    """With credentials as an operator hands them over: the workers have none of their own."""
    store = flights.store
    credentials = Credentials(
        catalog_properties={"type": "rest", "uri": flights.catalog.uri, **store.file_io},
        storage_options=store.options,
        sink_options=store.options,
    )
    return IcefloeRun(pipeline, folder=place.folder, environ=credentials.to_environment())


def pipeline_on(place: Place, flights: Flights, stem: str = "flights", **keys: Any) -> Path:
    written = {
        "identifier_columns": ["flight_id"],
        "storage_conn_id": None,
        "sink": {"type": "files", "path": f"s3://{flights.name}/changes"},
        "shuffle": {"map_task_bytes": 1, "partitions": 64, "target_size_bytes": 1},
        "spark": {"conf": place.conf()},
    }
    return flights.write_pipeline(place.folder, stem, **{**written, **keys})


def test_a_worker_that_dies_in_a_phase_changes_nothing(place: Place, flights: Flights) -> None:
    first, second = place.cluster.workers
    pipeline = pipeline_on(place, flights)
    after = flights.load().metadata.current_snapshot_id
    shuffle = flights.store.folder / "data" / flights.name / "icefloe" / "shuffle" / "flights"

    with run(place, flights, pipeline) as loading:
        kill_in_the_middle(loading, first, shuffle / "0", "[0-9]*.0")
        place.cluster.start(first)
        assert loading.document()["route"] == "insert_only"
    assert flights.delivered(0) == Counter({("INSERT", number, "AA"): 1 for number in range(100 * FILES)})

    flights.rewrite(files=FILES)
    with run(place, flights, pipeline) as rewriting:
        kill_in_the_middle(rewriting, second, shuffle / "1", "[0-9]*.0")
        place.cluster.start(second)
        kill_in_the_middle(rewriting, first, shuffle / "1" / "results", "*.json")
        assert rewriting.document()["route"] == "shuffle"
    changes = read_changes(flights.load(), after_snapshot_id=after, identifier_columns=["flight_id"]).read_all()
    assert flights.delivered(1) == counted(changes)
    place.cluster.start(first)


def kill_in_the_middle(run: IcefloeRun, worker: SparkWorker, folder: Path, pattern: str) -> None:
    """SIGKILL for a worker and its executors as soon as a first task is done, and before all are."""
    run.when(lambda: any(folder.glob(pattern)) and worker.executors())
    assert worker.kill() > 0
    done = len(list(folder.glob(pattern)))
    assert 0 < done < FILES, f"{done} tasks were done"
