"""Batches whose workers and executors die, come, go or are slow, on a real Spark cluster."""

from collections import Counter
from pathlib import Path

import pytest

from icefloe.api import read_changes
from support.pipelines.flights_on_s3 import Flights, counted
from support.servers.cluster_place import ClusterPlace, IcefloeRun, held, shuffle_folders
from support.servers.rest_catalog import RestCatalog
from support.servers.spark_cluster import SparkWorker
from support.servers.versitygw import Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1200)]

FILES = 40


def test_a_worker_that_dies_in_a_phase_and_a_killed_driver_change_nothing(
    place: ClusterPlace, rest_catalog: RestCatalog, versitygw: Versitygw
) -> None:
    first, second = place.cluster.workers
    flights = Flights.create("clusterflights", rest_catalog, versitygw, files=FILES)
    pipeline = place.pipeline(flights, "flights")
    after = flights.load().metadata.current_snapshot_id
    shuffle = shuffle_folders(flights, "flights")

    with place.run(flights, pipeline) as loading:
        kill_in_the_middle(loading, first, shuffle, "*/0/[0-9]*.0", begun="*/0/phases/insert_only.json")
        place.cluster.start(first)
        assert loading.document()["route"] == "insert_only"
    assert flights.delivered(0) == Counter({("INSERT", number, "AA"): 1 for number in range(100 * FILES)})

    flights.rewrite(files=FILES)
    records = "*/1/[0-9]*.0"
    with place.run(flights, pipeline) as killed:
        killed.when(lambda: found(shuffle, records))
        killed.kill()
    kept = {path: path.read_bytes() for path in shuffle.glob(records)}
    assert 0 < len(kept) < FILES
    with place.run(flights, pipeline) as rewriting:
        write, read = "*/1/phases/shuffle_write.json", "*/1/phases/shuffle_read.json"
        kill_in_the_middle(rewriting, second, shuffle, records, begun=write, more_than=len(kept))
        place.cluster.start(second)
        kill_in_the_middle(rewriting, first, shuffle, "*/1/results/*.json", begun=read)
        assert {path: path.read_bytes() for path in kept} == kept
        assert rewriting.document()["route"] == "shuffle"
    changes = read_changes(flights.load(), after_snapshot_id=after, identifier_columns=["flight_id"]).read_all()
    assert flights.delivered(1) == counted(changes)
    place.cluster.start(first)


def found(folder: Path, pattern: str) -> list[Path]:
    """The files of a pattern. The store removes a folder with its last object, such as that of a probe."""
    try:
        return list(folder.glob(pattern))
    except FileNotFoundError:  # it went between two looks of pathlib
        return []


def kill_in_the_middle(
    run: IcefloeRun, worker: SparkWorker, folder: Path, pattern: str, *, begun: str, more_than: int = 0
) -> None:
    """SIGKILL for a worker and its executors after a task of a phase is done, and before all are.

    Args:
        run: of the batch.
        worker: whose Python is held until then, so that the phase does not end between two looks.
        folder: of the batches.
        pattern: of the documents that say that a task is done.
        begun: pattern of a document that this run writes before the first task of the phase, and after the task that
            asks one worker for its libraries: without that one nothing would go on.
        more_than: number of tasks that an earlier try has done.
    """
    run.when(lambda: any(path.stat().st_mtime > run.began for path in found(folder, begun)) and worker.pythons())
    with held(worker):
        run.when(lambda: len(found(folder, pattern)) > more_than)
        done = len(found(folder, pattern))
        assert done < FILES, "no task was held"
        assert worker.kill() > 0
