"""Batches by the Spark of a user's cluster, which ``SPARK_HOME`` names, beside the pyspark of Airflow's environment."""

import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
import yaml

from support.pipelines.flights import Flights
from support.pipelines.workspace import Outcome, python
from support.servers.spark_cluster import QUICK_START, SparkCluster
from support.servers.wheel import spark_home
from support.tiers import extended

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

OLDEST, OTHERS = "3.5.9", ("4.0.5", "4.1.4", "4.3.0")


@pytest.fixture
def flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flights:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    # The archive of classes is one Spark's own.
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    return Flights.entered(tmp_path, monkeypatch)


def write(flights: Flights, master: str, **conf: Any) -> None:
    """A pipeline all of whose phases are Spark applications, delivery among them."""
    sink = {"type": "spark", "format": "parquet", "mode": "append"}
    path = flights.write_pipeline("flights", sink={**sink, "options": {"path": f"file://{flights.folder}/appended"}})
    keys = yaml.safe_load(path.read_text()) | {"engine": "spark", "storage_is_shared": True}
    started = {"spark.driver.extraJavaOptions": QUICK_START, "spark.executor.extraJavaOptions": QUICK_START}
    (events := flights.folder / "events").mkdir()
    told = {"spark.eventLog.enabled": True, "spark.eventLog.dir": f"file://{events}", "spark.eventLog.compress": False}
    path.write_text(yaml.safe_dump({**keys, "spark": {"conf": {"spark.master": master, **started, **told, **conf}}}))


def follow(flights: Flights, version: str, environ: dict[str, str]) -> None:
    """An initial load and an update by a version of Spark."""
    flights.lake.append((1, "AA"), (2, "UA"))
    for expected in ("insert_only", "shuffle"):
        assert ran("run", "flights", "--json", **environ).document["route"] == expected
        flights.lake.replace_carrier(2, "DL")
    logs = [path.read_text() for path in (flights.folder / "events").rglob("*") if path.is_file()]
    started = [f'"Spark Version":"{version}"' in log for log in logs if "SparkListenerLogStart" in log]
    # On a cluster, validate has one of its own.
    assert all(started)
    assert len(started) >= 5
    appended = pq.read_table(flights.folder / "appended").to_pylist()
    assert sorted((row["_batch"], row["_change_type"], row["flight_id"], row["carrier"]) for row in appended) == [
        (0, "INSERT", 1, "AA"),
        (0, "INSERT", 2, "UA"),
        (1, "UPDATE_AFTER", 2, "DL"),
        (1, "UPDATE_BEFORE", 2, "UA"),
    ]


def ran(*arguments: str, **environ: str) -> Outcome:
    done = python(["-m", "icefloe", *arguments], timeout_seconds=400, **environ)
    assert done.code == 0, done.err
    return done


@pytest.mark.parametrize("version", [OLDEST, *map(extended, OTHERS)])
def test_both_routes_and_a_delivery_run_on_this_machine(version: str, flights: Flights) -> None:
    write(flights, "local[2]")
    follow(flights, version, {"SPARK_HOME": str(spark_home(version))})


@pytest.mark.extended
@pytest.mark.parametrize("version", [OLDEST, *OTHERS])
def test_both_routes_and_a_delivery_run_on_a_cluster(version: str, flights: Flights, tmp_path: Path) -> None:
    home = spark_home(version)
    with SparkCluster(folder=tmp_path / "spark", home=home) as cluster:
        write(flights, cluster.url, **{"spark.pyspark.python": sys.executable})
        environ = {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(cluster.conf_folder)}
        validated = ran("validate", "flights", **environ).out
        assert f"Spark {version} of SPARK_HOME, {home}, ran a task on {cluster.url}\n" in validated
        follow(flights, version, environ)


@pytest.mark.extended
def test_validate_names_the_spark_that_a_cluster_of_another_version_refuses(flights: Flights, tmp_path: Path) -> None:
    with SparkCluster(folder=tmp_path / "spark", home=spark_home(OLDEST)) as cluster:
        write(flights, cluster.url, **{"spark.pyspark.python": sys.executable})
        validate = ["-m", "icefloe", "validate", "flights"]
        done = python(validate, timeout_seconds=400, SPARK_CONF_DIR=str(cluster.conf_folder))
    assert done.code == 75, done.out
    assert f"see that the cluster runs Spark {pyspark.__version__} as this driver does" in done.out
