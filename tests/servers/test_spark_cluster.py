"""Batches on a real Spark cluster, with everything else on S3 and in a REST catalog."""

import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from icefloe.orchestration.tasks import calls as use_cases
from icefloe.orchestration.tasks.spark_phase_operator import SparkPhaseOperator
from icefloe.pipeline.model import Pipeline
from support.pipelines.flights_on_s3 import Flights
from support.servers.cluster_place import ClusterPlace, held, shuffle_folder
from support.servers.planted_secrets import CommandLines, files_with, read_url
from support.servers.rest_catalog import RestCatalog
from support.servers.spark_cluster import SparkCluster
from support.servers.versitygw import Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1200)]

FILES = 40


def test_a_dags_task_runs_on_what_its_archive_brings_and_shows_no_secret(
    place: ClusterPlace, rest_catalog: RestCatalog, versitygw: Versitygw, monkeypatch: pytest.MonkeyPatch
) -> None:
    flights = Flights.create("archivedflights", rest_catalog, versitygw, files=FILES)
    for name, value in flights.variables({"CLIENT-SECRET": "never-used"}).items():
        monkeypatch.setenv(name, value)
    connection = {"conn_type": "spark", "host": "spark://127.0.0.1", "port": place.cluster.port}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("SPARK_CONF_DIR", str(place.cluster.conf_folder))
    archived = {"spark.archives": f"{place.environment.archive}#environment", "spark.cores.max": 2}
    conf = place.conf(archived, python="./environment/bin/python")
    del conf["spark.master"]
    pipeline = Pipeline.load(place.pipeline(flights, "archived", spark={"conf": conf}))
    prepared: Any = use_cases.plan_batch(pipeline, None)
    task = SparkPhaseOperator(task_id="insert_only", phase="insert_only", pipeline=pipeline)
    context = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: {"plan": prepared}[task_ids])}
    phases = shuffle_folder(flights, "archived", 0) / "phases"

    with CommandLines() as watched, ThreadPoolExecutor(1) as background:
        running = background.submit(task.execute, context)
        found = record_of(phases / "insert_only.json", running)
        while (busy := next((worker for worker in place.cluster.workers if worker.pythons()), None)) is None:
            assert not running.done() or running.result() is None
            time.sleep(0.01)
        with held(busy):
            pythons = set(busy.pythons().values())
            pages = seen_pages(place.cluster, found)
        running.result()
    assert use_cases.commit(pipeline, prepared)[0]["counts"]["insert"] == 100 * FILES
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


def test_who_does_not_know_the_clusters_secret_gets_no_job_in(
    place: ClusterPlace, rest_catalog: RestCatalog, versitygw: Versitygw, tmp_path: Path
) -> None:
    flights = Flights.create("strangersflights", rest_catalog, versitygw, files=1)
    wrong = (place.cluster.conf_folder / "spark-defaults.conf").read_text().replace(place.cluster.secret, "a guess")
    (tmp_path / "spark-defaults.conf").write_text(wrong)
    pipeline = place.pipeline(flights, "stranger")
    with place.run(flights, pipeline, SPARK_CONF_DIR=str(tmp_path)) as run:
        code, sentence = run.failure()
    assert (code, place.cluster.state()["activeapps"]) == (75, [])
    assert place.cluster.secret not in sentence
