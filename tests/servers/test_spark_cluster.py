"""Batches on a real Spark cluster, with everything else on S3 and in a REST catalog."""

import json
import os
import signal
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from icefloe import read_changes
from icefloe.batch.credentials import Credentials
from icefloe.orchestration.tasks import calls as use_cases
from icefloe.orchestration.tasks.spark_phase_operator import SparkPhaseOperator
from icefloe.pipeline.pipeline_file import load_pipeline
from make.worker_environment import build_archive
from servers.conftest import or_skip
from support.pipelines.flights_on_s3 import Flights, counted
from support.pipelines.leftovers import left_in_shuffle
from support.servers.icefloe_run import IcefloeRun
from support.servers.planted_secrets import CommandLines, files_with, read_url
from support.servers.rest_catalog import RestCatalog
from support.servers.spark_cluster import SparkCluster, SparkWorker
from support.servers.versitygw import Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(1200)]

FILES = 40
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A cluster, the environment of its Python tasks, packed and unpacked, and a folder for what a test writes."""

    cluster: SparkCluster
    archive: Path
    environment: Path
    folder: Path

    def conf(self, **further: Any) -> dict[str, Any]:
        """Python is found where an image would have it."""
        return {
            "spark.master": self.cluster.url,
            "spark.pyspark.python": str(self.environment / "bin" / "python"),
            "spark.local.dir": str(self.folder / "driver"),
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": 1,
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.executor.extraJavaOptions": QUICK_START,
            **further,
        }

    def pipeline(self, flights: Flights, stem: str, **keys: Any) -> Path:
        """A pipeline file whose batches have many tasks."""
        written = {
            "identifier_columns": ["flight_id"],
            "sink": {"type": "files", "path": f"s3://{flights.name}/changes", "conn_id": "lake_s3"},
            "shuffle": {"map_task_bytes": 1, "partitions": 64, "target_size_bytes": 1},
            "spark": {"conf": self.conf(**{"spark.cores.max": 2})},
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


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("cluster")
    archive, _ = build_archive(folder / "archive", compression=1)
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "environment", filter="data")
    with or_skip(SparkCluster(folder=folder / "spark")) as cluster:
        yield Place(cluster=cluster, archive=archive, environment=folder / "environment", folder=folder)


def shuffle_folders(flights: Flights, stem: str) -> Path:
    """Those of all batches of a pipeline, below a folder that is called after the checkpoint."""
    return flights.store.folder / "data" / flights.name / "icefloe" / "shuffle" / stem


def shuffle_folder(flights: Flights, stem: str, batch: int) -> Path:
    """The files between the phases of a batch, once it is planned."""
    [folder] = shuffle_folders(flights, stem).glob(f"*/{batch}")
    return folder


@pytest.mark.extended
def test_a_worker_that_dies_in_a_phase_and_a_killed_driver_change_nothing(
    place: Place, rest_catalog: RestCatalog, versitygw: Versitygw
) -> None:
    first, second = place.cluster.workers
    flights = Flights.in_small_files("clusterflights", rest_catalog, versitygw, files=FILES)
    pipeline = place.pipeline(flights, "flights")
    after = flights.load().metadata.current_snapshot_id

    with place.run(flights, pipeline) as loading:
        kill_in_the_middle(loading, first, shuffle_folders(flights, "flights"), "*/0/[0-9]*.0")
        place.cluster.start(first)
        assert loading.document()["route"] == "insert_only"
    assert flights.delivered(0) == Counter({("INSERT", number, "AA"): 1 for number in range(100 * FILES)})

    flights.rewrite(files=FILES)
    shuffle = shuffle_folders(flights, "flights")
    records = "*/1/[0-9]*.0"
    with place.run(flights, pipeline) as killed:
        killed.when(lambda: any(shuffle.glob(records)))
        killed.kill()
    kept = {path: path.read_bytes() for path in shuffle.glob(records)}
    assert 0 < len(kept) < FILES
    with place.run(flights, pipeline) as rewriting:
        kill_in_the_middle(rewriting, second, shuffle, records, more_than=len(kept))
        place.cluster.start(second)
        kill_in_the_middle(rewriting, first, shuffle, "*/1/results/*.json")
        assert {path: path.read_bytes() for path in kept} == kept
        assert rewriting.document()["route"] == "shuffle"
    changes = read_changes(flights.load(), after_snapshot_id=after, identifier_columns=["flight_id"]).read_all()
    assert flights.delivered(1) == counted(changes)
    place.cluster.start(first)


def kill_in_the_middle(run: IcefloeRun, worker: SparkWorker, folder: Path, pattern: str, *, more_than: int = 0) -> None:
    """SIGKILL for a worker and its executors as soon as a task is done, and before all are."""
    run.when(lambda: len(list(folder.glob(pattern))) > more_than and worker.executors())
    assert worker.kill() > 0
    done = len(list(folder.glob(pattern)))
    assert more_than < done < FILES, f"{done} tasks were done"


def test_a_dags_task_runs_on_what_its_archive_brings_and_shows_no_secret(
    place: Place, rest_catalog: RestCatalog, versitygw: Versitygw, monkeypatch: pytest.MonkeyPatch
) -> None:
    flights = Flights.in_small_files("archivedflights", rest_catalog, versitygw, files=FILES)
    for name, value in flights.variables({"CLIENT-SECRET": "never-used"}).items():
        monkeypatch.setenv(name, value)
    connection = {"conn_type": "spark", "host": "spark://127.0.0.1", "port": place.cluster.port}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("SPARK_CONF_DIR", str(place.cluster.conf_folder))
    archived = {"spark.archives": f"{place.archive}#environment", "spark.pyspark.python": "./environment/bin/python"}
    conf = place.conf(**archived, **{"spark.cores.max": 2})
    del conf["spark.master"]
    pipeline = load_pipeline(place.pipeline(flights, "archived", spark={"conf": conf}))
    prepared: Any = use_cases.plan_batch(pipeline, None)
    task = SparkPhaseOperator(task_id="insert_only", phase="insert_only", pipeline=pipeline)
    task.application_args = [prepared["plan_uri"]]
    context = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: {"plan": prepared}[task_ids])}
    phases = shuffle_folder(flights, "archived", 0) / "phases"

    with CommandLines() as watched, ThreadPoolExecutor(1) as background:
        running = background.submit(task.execute, context)
        found = record_of(phases / "insert_only.json", running)
        busy = busy_workers(place.cluster)[0]
        with held(busy):
            pythons = set(busy.pythons().values())
            pages = seen_pages(place.cluster, found)
        running.result()
    assert use_cases.commit(pipeline, prepared)["counts"]["insert"] == 100 * FILES
    assert pythons
    assert all("/spark_worker" in str(program) and "/environment/bin/" in str(program) for program in pythons)
    assert any(b"deploy.SparkSubmit" in argument for argument in watched.arguments)
    assert "spark.pyspark.python" in pages
    assert "spark.network.crypto.enabled" in pages
    for secret in (versitygw.secret_key, "never-used", place.cluster.secret):
        assert secret not in pages
        assert [path.name for path in files_with(secret, [place.cluster.folder])] == (
            ["spark-defaults.conf"] if secret == place.cluster.secret else []
        )
        assert not [argument for argument in watched.arguments if secret.encode() in argument]


def record_of(path: Path, running: "Future[None]") -> dict[str, Any]:
    """The record of a phase as soon as it begins."""
    while not path.is_file():
        assert not running.done() or running.result() is None
        time.sleep(0.01)
    return json.loads(path.read_text())


def seen_pages(cluster: SparkCluster, record: dict[str, Any]) -> str:
    """The texts of Spark's web pages while a phase runs: the application's, the master's and the workers'."""
    api = f"{record['spark_ui']}/api/v1/applications/{record['spark_application_id']}"
    urls = [f"{api}/environment", f"{api}/allexecutors", f"{api}/jobs", f"{cluster.ui}/json/"]
    urls += [f"http://127.0.0.1:{worker.port}/json/" for worker in cluster.workers]
    return "\n".join(read_url(url) for url in urls)


def busy_workers(cluster: SparkCluster) -> list[SparkWorker]:
    """Those whose executors have begun tasks."""
    return [worker for worker in cluster.workers if worker.pythons()]


@contextmanager
def held(worker: SparkWorker) -> Iterator[None]:
    """Holds the Python of a worker, and with it the phase, for its task does not end meanwhile."""
    pids = list(worker.pythons())
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@pytest.mark.extended
def test_who_does_not_know_the_clusters_secret_gets_no_job_in(
    place: Place, rest_catalog: RestCatalog, versitygw: Versitygw, tmp_path: Path
) -> None:
    flights = Flights.in_small_files("strangersflights", rest_catalog, versitygw, files=1)
    wrong = (place.cluster.conf_folder / "spark-defaults.conf").read_text().replace(place.cluster.secret, "a guess")
    (tmp_path / "spark-defaults.conf").write_text(wrong)
    pipeline = place.pipeline(flights, "stranger")
    with place.run(flights, pipeline, SPARK_CONF_DIR=str(tmp_path)) as run:
        code, sentence = run.failure()
    assert (code, place.cluster.state()["activeapps"]) == (75, [])
    assert place.cluster.secret not in sentence


def test_workers_without_the_libraries_are_reported_in_one_sentence(
    place: Place, rest_catalog: RestCatalog, versitygw: Versitygw
) -> None:
    flights = Flights.in_small_files("bareflights", rest_catalog, versitygw, files=1)
    conf = place.conf(**{"spark.pyspark.python": "python3", "spark.cores.max": 1})
    with place.run(flights, place.pipeline(flights, "bare", spark={"conf": conf})) as run:
        code, sentence = run.failure()
    assert code == 65
    assert sentence.startswith("the Spark workers have no pyarrow, no numpy, no obstore, no lz4, no pyroaring, ")
    assert sentence.endswith("which `make env` packs for spark.archives, or from the same image")


@pytest.mark.extended
def test_executors_come_and_go_and_a_slow_load_holds_up_no_other_pipeline(
    place: Place, rest_catalog: RestCatalog, versitygw: Versitygw
) -> None:
    slow = Flights.in_small_files("slowflights", rest_catalog, versitygw, files=FILES)
    quick = Flights.in_small_files("quickflights", rest_catalog, versitygw, files=3)
    dynamic = {
        "spark.dynamicAllocation.enabled": True,
        "spark.dynamicAllocation.maxExecutors": 2,
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
    }
    slow_file = place.pipeline(slow, "slow", spark={"conf": place.conf(**dynamic)})
    quick_file = place.pipeline(quick, "quick", spark={"conf": place.conf(**{"spark.cores.max": 1})})
    records = shuffle_folders(slow, "slow")

    with place.run(slow, slow_file) as loading:
        busy = loading.when(lambda: any(records.glob("*/0/[0-9]*.0")) and busy_workers(place.cluster))[0]
        with held(busy):
            # Another one comes, does all that is left, and goes: only then is there room for the other pipeline.
            loading.when(lambda: len(list(records.glob("*/0/[0-9]*.0"))) >= FILES - 1)
            loading.when(lambda: place.cluster.state()["coresused"] == 1)
            with place.run(quick, quick_file) as delivering:
                assert delivering.document()["insert"] == 300
            assert not any(records.glob("../../../checkpoints/slow/commits/*"))
        assert loading.document()["insert"] == 100 * FILES


@pytest.mark.extended
def test_a_speculative_attempt_of_a_slow_task_changes_nothing(
    place: Place, rest_catalog: RestCatalog, versitygw: Versitygw
) -> None:
    flights = Flights.in_small_files("guessedflights", rest_catalog, versitygw, files=FILES)
    speculation = {
        "spark.cores.max": 2,
        "spark.speculation": True,
        "spark.speculation.quantile": 0.1,
        "spark.speculation.interval": "50ms",
        "spark.speculation.minTaskRuntime": "50ms",
    }
    pipeline = place.pipeline(flights, "guessed", spark={"conf": place.conf(**speculation)})
    records = shuffle_folders(flights, "guessed")
    with place.run(flights, pipeline) as loading:
        loading.when(lambda: any(records.glob("*/0/[0-9]*.0")))
        with held(busy_workers(place.cluster)[0]):
            # The held attempt does not end; its task is done by another one, on the other worker.
            assert loading.document()["insert"] == 100 * FILES
    assert flights.delivered(0) == Counter({("INSERT", number, "AA"): 1 for number in range(100 * FILES)})
    with place.run(flights, pipeline) as again:
        assert again.document()["batch"] is None
    assert left_in_shuffle(records.parents[1]) == []


def test_disks_of_one_machine_are_refused_before_a_batch_is_opened(
    place: Place, rest_catalog: RestCatalog, versitygw: Versitygw, monkeypatch: pytest.MonkeyPatch
) -> None:
    flights = Flights.in_small_files("diskflights", rest_catalog, versitygw, files=1)
    storage = f"file://{place.folder}/storage"
    path = place.pipeline(flights, "disk", storage=storage)
    with place.run(flights, path) as run:
        code, sentence = run.failure()
    assert code == 65
    assert sentence.startswith(f"storage is {storage}, a disk of one machine, but the Spark master spark://127.0.0.1:")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", f"spark://127.0.0.1:{place.cluster.port}")
    task = SparkPhaseOperator(task_id="insert_only", phase="insert_only", pipeline=load_pipeline(path))
    prepared = {"plan_uri": f"{storage}/shuffle/disk/an-id/0/plan.json", "batch_number": 0, "backfill_id": None}
    with pytest.raises(AirflowFailException, match=f"insert_only: storage is {storage}, a disk of one machine"):
        task.execute({"ti": SimpleNamespace(xcom_pull=lambda task_ids: {"plan": prepared}[task_ids])})
    assert not (place.folder / "storage").exists()
