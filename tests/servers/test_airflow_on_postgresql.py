"""Airflow's daemons on PostgreSQL; table, catalog, storage and sink on S3, all secrets in connections."""

import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from icefloe.api import read_changes
from support.missing import require_package
from support.pipelines.flights_on_s3 import Flights, counted
from support.servers.daemons import Daemons, wait_until
from support.servers.planted_secrets import CommandLines, files_with
from support.servers.postgresql import Postgresql
from support.servers.spark_writer import SparkWriter
from support.servers.versitygw import Versitygw

pytestmark = [
    pytest.mark.extended,
    pytest.mark.servers,
    pytest.mark.daemons,
    pytest.mark.spark,
    pytest.mark.timeout(900),
]

REPOSITORY = Path(__file__).parents[2]
DAG = "flights_in_airflow"
REFUSED = "flights_refused"
POOL = "spark_heavy"
CLIENT_SECRET = f"planted{secrets.token_hex(16)}"
WRONG_SECRET = f"planted{secrets.token_hex(16)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The parts of one run of the daemons."""

    home: Path
    daemons: Daemons
    flights: Flights
    watched: CommandLines

    def run(self, dag_id: str, number: int, *, state: str = "success") -> dict[str, Any]:
        """The run of a DAG, counted from 0, when it has ended in a state."""

        def ended() -> dict[str, Any] | None:
            try:
                runs = self.daemons.get("dags/~/dagRuns?order_by=run_after")["dag_runs"]
            except TimeoutError:  # a busy machine; the deadline is what counts
                return None
            found = [run for run in runs if run["dag_id"] == dag_id][number:]
            if not found or found[0]["state"] not in ("success", "failed"):
                return None
            assert found[0]["state"] == state, self.daemons.task_logs(dag_id)
            return found[0]

        return wait_until(ended, what=f"run {number} of {dag_id}", seconds=300)

    def pools(self, run: dict[str, Any]) -> dict[str, str]:
        """The pools whose slots some tasks of a run took."""
        tasks = self.daemons.get(f"dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}/taskInstances")["task_instances"]
        return {task["task_id"]: task["pool"] for task in tasks if task["task_id"] in ("insert_only", "plan", "commit")}


@pytest.fixture(scope="module")
def database(postgresql: Postgresql) -> Postgresql:
    """The server with an empty database for Airflow."""
    require_package("psycopg2", "psycopg2-binary")
    require_package("asyncpg", "asyncpg")
    postgresql.make_database("airflow")
    return postgresql


@pytest.fixture(scope="module")
def deployment(
    tmp_path_factory: pytest.TempPathFactory, database: Postgresql, spark: SparkWriter
) -> Iterator[Deployment]:
    home = tmp_path_factory.mktemp("airflow")
    pipelines = home / "dags" / "pipelines"
    pipelines.mkdir(parents=True)
    shutil.copy(REPOSITORY / "dags" / "icefloe_pipelines.py", pipelines.parent)
    flights = Flights.create("flightsinairflow", spark, format_version=3)
    (home / "events").mkdir()
    # The events are what Spark's UI shows, its environment page among it.
    events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{home}/events"}
    conf = {**events, "spark.eventLog.compress": "false", "spark.ui.enabled": "false"}
    flights.write_pipeline(pipelines, DAG, poll_interval="1s", spark={"conf": conf, "pool": POOL})
    flights.write_pipeline(pipelines, REFUSED, storage_conn_id="lake_wrong", schedule="0 * * * *", engine="local")
    variables = {
        name: value
        for name, value in flights.variables(
            {"CLIENT-SECRET": CLIENT_SECRET, "PASSWORD@db.example.com:5432": database.authority}
        ).items()
        if name.startswith("AIRFLOW")
    }
    connection = variables["AIRFLOW_CONN_LAKE_S3"]
    variables["AIRFLOW_CONN_LAKE_WRONG"] = connection.replace(flights.store.secret_key, WRONG_SECRET)
    with CommandLines() as watched, Daemons(home, plugins=REPOSITORY / "plugins", variables=variables) as daemons:
        daemons.post("pools", {"name": POOL, "slots": 1})
        yield Deployment(home=home, daemons=daemons, flights=flights, watched=watched)


def test_a_pipeline_on_s3_is_followed_and_no_secret_is_written_anywhere(
    deployment: Deployment, postgresql: Postgresql, versitygw: Versitygw
) -> None:
    flights = deployment.flights
    after = flights.load().metadata.current_snapshot_id
    first = deployment.run(DAG, 0)
    assert deployment.pools(first) == {"insert_only": POOL, "plan": "default_pool", "commit": "default_pool"}
    assert flights.delivered(0) == Counter({("INSERT", number, "AA"): 1 for number in range(1000)})
    flights.merge()
    deployment.run(DAG, 1)
    assert flights.delivered(1) == counted(read_changes(flights.load(), after_snapshot_id=after).read_all())
    deployment.run(REFUSED, 0, state="failed")
    assert "; check the credentials and the permissions of this place" in deployment.daemons.task_logs(REFUSED)

    folders = [deployment.home, versitygw.folder / "data"]
    dump = postgresql.dump("airflow")
    assert DAG in dump
    assert files_with(DAG, folders), "what is searched holds what was written"
    assert files_with("spark.eventLog.enabled", [deployment.home / "events"])
    assert any(b"deploy.SparkSubmit" in argument for argument in deployment.watched.arguments)
    for secret in (versitygw.secret_key, postgresql.password, CLIENT_SECRET, WRONG_SECRET):
        assert files_with(secret, folders) == []
        assert secret not in dump
        assert not [argument for argument in deployment.watched.arguments if secret.encode() in argument]
