"""Airflow's daemons on PostgreSQL; table, catalog, storage and sink on S3, all secrets in connections."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.daemons import Daemons, wait_until
from icefloe import read_changes
from servers.flights import Flights, counted
from servers.planted_secrets import CommandLines, files_with
from servers.postgresql import Postgresql
from servers.spark_writer import SparkWriter
from servers.versitygw import Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.daemons, pytest.mark.spark, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).parents[2]
DAG = "flights_in_airflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What one run of the daemons is made of."""

    home: Path
    daemons: Daemons
    flights: Flights
    watched: CommandLines

    def run(self, number: int) -> dict[str, Any]:
        """The run of the DAG, counted from 0, when it has ended well."""

        def ended() -> dict[str, Any] | None:
            runs = self.daemons.get("dags/~/dagRuns?order_by=run_after")["dag_runs"]
            found = [run for run in runs if run["dag_id"] == DAG][number:]
            assert not found or found[0]["state"] != "failed", self.daemons.task_logs(DAG)
            return found[0] if found and found[0]["state"] == "success" else None

        return wait_until(ended, what=f"run {number}", seconds=300)


@pytest.fixture(scope="module")
def database(postgresql: Postgresql) -> str:
    """The URI of Airflow's database."""
    pytest.importorskip("psycopg2", reason="Airflow on PostgreSQL needs the package psycopg2-binary")
    pytest.importorskip("asyncpg", reason="Airflow on PostgreSQL needs the package asyncpg")
    return postgresql.make_database("airflow").replace("postgresql://", "postgresql+psycopg2://")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory, database: str, spark: SparkWriter) -> Iterator[Deployment]:
    home = tmp_path_factory.mktemp("airflow")
    pipelines = home / "dags" / "pipelines"
    pipelines.mkdir(parents=True)
    shutil.copy(REPOSITORY / "dags" / "icefloe_pipelines.py", pipelines.parent)
    flights = Flights.create("flightsinairflow", spark, format_version=3)
    sink = {"type": "files", "path": f"s3://{flights.name}/changes", "conn_id": "lake_s3"}
    spark_conf = {"conf": {"spark.ui.enabled": "false"}}
    flights.write_pipeline(
        pipelines, name=DAG, storage_conn_id="lake_s3", sink=sink, schedule="@continuous", poll_interval="1s",
        engine="spark", spark=spark_conf,
    )  # fmt: skip
    variables = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        "AIRFLOW_CONN_LAKEHOUSE": json.dumps(catalog_connection(flights)),
        "AIRFLOW_CONN_LAKE_S3": json.dumps(flights.store.airflow_connection),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }
    with CommandLines() as watched, Daemons(home, plugins=REPOSITORY / "plugins", variables=variables) as daemons:
        yield Deployment(home=home, daemons=daemons, flights=flights, watched=watched)


def catalog_connection(flights: Flights) -> dict[str, Any]:
    return {"conn_type": "iceberg", "host": flights.catalog.uri, "extra": flights.store.file_io}


def test_a_pipeline_on_s3_is_followed_and_no_secret_is_written_anywhere(
    deployment: Deployment, postgresql: Postgresql, versitygw: Versitygw
) -> None:
    flights = deployment.flights
    after = flights.load().metadata.current_snapshot_id
    deployment.run(0)
    assert flights.delivered(0) == Counter({("INSERT", number, "AA"): 1 for number in range(1000)})
    flights.merge()
    deployment.run(1)
    assert flights.delivered(1) == counted(read_changes(flights.load(), after_snapshot_id=after).read_all())

    folders = [deployment.home, versitygw.folder / "data"]
    dump = postgresql.dump("airflow")
    assert DAG in dump
    assert files_with(DAG, folders), "what is searched holds what was written"
    assert any(b"spark-submit" in argument for argument in deployment.watched.arguments)
    for secret in (versitygw.secret_key, postgresql.password):
        assert files_with(secret, folders) == []
        assert secret not in dump
        assert not [argument for argument in deployment.watched.arguments if secret.encode() in argument]
