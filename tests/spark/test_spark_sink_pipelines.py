"""Pipelines whose changes Spark brings, by the command line and spark-submit."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType, UUIDType

from support.pages.claims import Kind, claimed
from support.pipelines.flights import Flights
from support.pipelines.workspace import icefloe
from support.servers.rest_catalog import RestCatalog
from support.spark.spark_lab import sqlite_conf

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.extended]

BLOCKS = [block for block in claimed(Kind.KEYS) if "type: spark" in block.text]
CARRIERS = Schema(NestedField(1, "carrier", StringType()), NestedField(2, "flights", LongType()))


@pytest.fixture
def flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flights:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    return Flights.entered(tmp_path, monkeypatch)


def run(flights: Flights, sink: dict[str, Any], conf: dict[str, str] | None = None, **further: Any) -> None:
    path = flights.write_pipeline("flights", sink=sink, **further)
    keys = yaml.safe_load(path.read_text())
    conf = {**sqlite_conf("lakehouse", flights.folder), **(conf or {})}
    path.write_text(yaml.safe_dump({**keys, "engine": "auto", "spark": {"conf": conf}}))
    done = icefloe("run", "flights", "--json")
    assert done.code == 0, done.err


def sinks(mode: str) -> list[Any]:
    found = [yaml.safe_load(block.text)["sink"] for block in BLOCKS]
    return [pytest.param(sink, id=mode) for sink in found if (sink["mode"], "table" in sink) == (mode, True)]


@pytest.fixture
def carriers(flights: Flights) -> Flights:
    """Two batches are to come."""
    catalog = flights.lake.table.catalog
    catalog.create_namespace("changes")
    catalog.create_table("changes.carriers", CARRIERS)
    flights.lake.append((1, "AA"), (2, "UA"), (3, "AA"))
    return flights


def rows(flights: Flights, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = flights.lake.table.catalog.load_table(table).scan().to_arrow().to_pylist()
    return found


@pytest.mark.parametrize("sink", sinks("statement"))
def test_the_statement_of_the_page_counts_every_change_once(sink: dict[str, Any], carriers: Flights) -> None:
    run(carriers, sink)
    carriers.lake.replace_carrier(3, "UA")
    run(carriers, sink)
    assert {row["carrier"]: row["flights"] for row in rows(carriers, "changes.carriers")} == {"AA": 1, "UA": 2}


@pytest.mark.parametrize("sink", sinks("merge") + sinks("append"))
def test_a_target_of_the_page_is_made_and_verified(sink: dict[str, Any], carriers: Flights) -> None:
    run(carriers, sink)
    carriers.lake.replace_carrier(3, "UA")
    run(carriers, sink)
    assert len(rows(carriers, "changes.flights")) == (3 if sink["mode"] == "merge" else 5)
    verified = icefloe("verify", "flights")
    assert verified.code == 0, verified.err


def test_changes_are_appended_to_files_by_the_options_of_the_page(carriers: Flights) -> None:
    [sink] = [keys["sink"] for block in BLOCKS if "options" in (keys := yaml.safe_load(block.text))["sink"]]
    run(carriers, {**sink, "options": {"path": f"file://{carriers.folder}/appended"}})
    assert pq.read_table(carriers.folder / "appended").num_rows == 3
    refused = icefloe("verify", "flights")
    assert (refused.code, "is read by Spark alone" in refused.err) == (65, True), refused.err


@pytest.mark.parametrize("mode", ["merge", "append"])
def test_uuids_arrive_in_a_table_of_iceberg(flights: Flights, mode: str) -> None:
    catalog = flights.lake.table.catalog
    catalog.create_namespace("changes")
    listed = ListType(element_id=4, element=UUIDType(), element_required=False)
    schema = Schema(
        NestedField(1, "key", UUIDType()), NestedField(2, "other", UUIDType()), NestedField(3, "all", listed)
    )
    source = catalog.create_table("nyc.tokens", schema)

    def some(*numbers: int) -> pa.Array:
        storage = pa.array([UUID(int=number).bytes for number in numbers], pa.binary(16))
        return pa.ExtensionArray.from_storage(pa.uuid(), storage)

    def rows(keys: pa.Array, others: pa.Array) -> pa.Table:
        lists = pa.LargeListArray.from_arrays([0, 2, 2], some(8, 9), mask=pa.array([False, True]))
        return pa.table({"key": keys, "other": others, "all": lists})

    sink = {"type": "spark", "table": "lakehouse.changes.tokens", "mode": mode}
    source.append(rows(some(1, 2), some(3, 4)))
    run(flights, sink, table="nyc.tokens", identifier_columns=["key"])
    source.overwrite(rows(some(1, 5), some(6, 7)))
    run(flights, sink, table="nyc.tokens", identifier_columns=["key"])
    found = catalog.load_table("changes.tokens")
    assert [found.schema().find_field(name).field_type for name in ("key", "other")] == [UUIDType()] * 2
    assert found.scan().to_arrow().num_rows == (2 if mode == "merge" else 6)
    verified = icefloe("verify", "flights")
    assert verified.code == 0, verified.err


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("mode", "rows_after"), [("mirror", 3), ("changelog", 5)])
def test_a_table_of_format_version_3_in_a_rest_catalog_is_written_and_verified(
    carriers: Flights, monkeypatch: pytest.MonkeyPatch, mode: str, rows_after: int
) -> None:
    with RestCatalog(folder=carriers.folder / "rest", warehouse=f"file://{carriers.folder}/mirrors") as server:
        monkeypatch.setenv("PYICEBERG_CATALOG__MIRRORS__URI", server.uri)
        catalog = load_catalog("mirrors", uri=server.uri)
        catalog.create_namespace("changes")
        catalog.create_table("changes.flights", Schema(), properties={"format-version": "3"})
        sink = {"type": "iceberg", "catalog": "mirrors", "table": "changes.flights", "mode": mode}
        name = "spark.sql.catalog.mirrors"
        conf = {name: "org.apache.iceberg.spark.SparkCatalog", f"{name}.type": "rest", f"{name}.uri": server.uri}
        run(carriers, sink, conf)
        carriers.lake.replace_carrier(3, "UA")
        run(carriers, sink, conf)
        found = catalog.load_table("changes.flights")
        assert (found.format_version, found.scan().to_arrow().num_rows) == (3, rows_after)
        verified = icefloe("verify", "flights")
        assert verified.code == 0, verified.err
