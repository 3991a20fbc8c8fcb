"""The whole flow with everything on S3 and the table in a REST catalog."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from icefloe.api import read_changes
from support.pipelines.flights_on_s3 import Flights, counted
from support.pipelines.workspace import Outcome, icefloe_process
from support.servers.rest_catalog import RestCatalog
from support.servers.versitygw import Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

FILES = 10


def test_commits_through_the_catalog_are_delivered_to_s3(
    rest_catalog: RestCatalog, versitygw: Versitygw, tmp_path: Path
) -> None:
    flights = Flights.create("flightsons3", rest_catalog, versitygw, files=FILES)
    pipeline = write_pipeline(flights, tmp_path)
    after = flights.load().metadata.current_snapshot_id
    assert icefloe(flights, "validate", pipeline).code == 0
    loaded = icefloe(flights, "run", pipeline)
    assert (loaded.code, loaded.err) == (0, "")
    assert loaded.document["route"] == "insert_only"
    assert flights.delivered(0) == Counter({("INSERT", number, "AA"): 1 for number in range(100 * FILES)})

    flights.rewrite(files=FILES)
    rewritten = icefloe(flights, "run", pipeline)
    assert (rewritten.code, rewritten.err) == (0, "")
    assert rewritten.document["route"] == "shuffle"
    changes = read_changes(flights.load(), after_snapshot_id=after, identifier_columns=["flight_id"]).read_all()
    assert flights.delivered(1) == counted(changes)
    assert Counter(changes["_change_type"].to_pylist()) == {"DELETE": 10, "UPDATE_BEFORE": 10, "UPDATE_AFTER": 10}

    assert icefloe(flights, "verify", pipeline).code == 0
    assert icefloe(flights, "run", pipeline).document["batch"] is None


def test_pins_go_through_a_rest_catalog(rest_catalog: RestCatalog, versitygw: Versitygw, tmp_path: Path) -> None:
    flights = Flights.create("flightspinned", rest_catalog, versitygw, files=2)
    pipeline = write_pipeline(flights, tmp_path, pin=True)
    assert icefloe(flights, "run", pipeline).code == 0
    flights.rewrite(files=2)
    done = icefloe(flights, "run", pipeline)
    assert (done.code, done.err) == (0, "")
    pinned = icefloe(flights, "status", pipeline, "--json").document
    # PyIceberg's overwrite is two snapshots, after the one that was delivered.
    assert (pinned["pins"]["snapshots"], pinned["pins"]["up_to_snapshot_id"]) == (3, pinned["head_snapshot_id"])
    assert len(flights.load().metadata.refs) == 5
    assert icefloe(flights, "unpin", pipeline, "--yes").code == 0
    assert flights.load().metadata.refs.keys() == {"main"}


def write_pipeline(flights: Flights, folder: Path, **keys: Any) -> Path:
    sink = {"type": "files", "path": f"s3://{flights.name}/changes"}
    return flights.write_pipeline(
        folder, storage_conn_id=None, sink=sink, engine="local", identifier_columns=["flight_id"], **keys
    )


def icefloe(flights: Flights, *arguments: object) -> Outcome:
    """The command line with the documented variables of PyIceberg and of S3's own tools."""
    given = {name: value for name, value in flights.variables().items() if not name.startswith("AIRFLOW")}
    return icefloe_process(*arguments, **given)
