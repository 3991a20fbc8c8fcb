"""The whole flow with everything on S3 and the table in a REST catalog, written by Spark."""

from collections import Counter
from pathlib import Path

import pytest

from icefloe.api import read_changes
from support.pipelines.flights_on_s3 import Flights, counted
from support.pipelines.workspace import Outcome, icefloe_process
from support.servers.spark_writer import SparkWriter
from support.tiers import extended

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize("engine", ["local", extended("spark")])
def test_commits_of_spark_through_the_catalog_are_delivered_to_s3(
    spark: SparkWriter, tmp_path: Path, engine: str
) -> None:
    flights = Flights.create(f"flights{engine}", spark, format_version=3)
    pipeline = flights.write_pipeline(
        tmp_path,
        storage_conn_id=None,
        sink={"type": "files", "path": f"s3://{flights.name}/changes"},
        spark={"conf": {"spark.master": "local[2]", "spark.ui.enabled": "false"}},
    )
    after = flights.load().metadata.current_snapshot_id

    assert icefloe(flights, "validate", pipeline).code == 0
    loaded = icefloe(flights, "run", pipeline, "--engine", engine)
    assert (loaded.code, loaded.err) == (0, "")
    assert loaded.document["route"] == "insert_only"
    assert flights.delivered(0) == Counter({("INSERT", number, "AA"): 1 for number in range(1000)})

    flights.merge()
    merged = icefloe(flights, "run", pipeline, "--engine", engine)
    assert (merged.code, merged.err) == (0, "")
    assert merged.document["route"] == "shuffle"
    changes = read_changes(flights.load(), after_snapshot_id=after).read_all()
    assert flights.delivered(1) == counted(changes)
    assert counts(flights.delivered(1)) == {"DELETE": 50, "UPDATE_BEFORE": 50, "UPDATE_AFTER": 50, "INSERT": 20}

    assert icefloe(flights, "verify", pipeline).code == 0
    assert icefloe(flights, "run", pipeline).document["batch"] is None


def test_pins_go_through_a_rest_catalog(spark: SparkWriter, tmp_path: Path) -> None:
    flights = Flights.create("flightspinned", spark, format_version=2)
    sink = {"type": "files", "path": f"s3://{flights.name}/changes"}
    pipeline = flights.write_pipeline(tmp_path, storage_conn_id=None, sink=sink, pin=True, engine="local")
    assert icefloe(flights, "run", pipeline).code == 0
    flights.merge()
    done = icefloe(flights, "run", pipeline)
    assert (done.code, done.err) == (0, "")
    pinned = icefloe(flights, "status", pipeline, "--json").document
    assert (pinned["pins"]["snapshots"], pinned["pins"]["up_to_snapshot_id"]) == (2, pinned["head_snapshot_id"])
    assert len(flights.load().metadata.refs) == 4
    assert icefloe(flights, "unpin", pipeline, "--yes").code == 0
    assert flights.load().metadata.refs.keys() == {"main"}


def icefloe(flights: Flights, *arguments: object) -> Outcome:
    """The command line with the documented variables of PyIceberg and of S3's own tools."""
    given = {name: value for name, value in flights.variables().items() if not name.startswith("AIRFLOW")}
    return icefloe_process(*arguments, **given)


def counts(delivered: Counter[tuple[str, int, str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (change_type, _, _), count in delivered.items():
        found[change_type] += count
    return found
