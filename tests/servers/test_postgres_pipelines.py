"""Pipelines whose rows arrive in PostgreSQL, by the command line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from icefloe.sinks.postgres.postgres_sink import PostgresSink
from support.pipelines.flights import Flights
from support.pipelines.workspace import icefloe
from support.servers.planted_secrets import files_with
from support.servers.postgresql import Postgresql

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


@dataclass(frozen=True, kw_only=True)
class Shop:
    flights: Flights
    connection: psycopg.Connection[Any]

    def run(self) -> None:
        done = icefloe("run", "flights")
        assert done.code == 0, done.err

    def rows(self) -> list[tuple[Any, ...]]:
        return self.connection.execute("select * from shop.flights order by 1").fetchall()


@pytest.fixture
def shop(postgresql: Postgresql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    flights = Flights.entered(tmp_path, monkeypatch)
    database = tmp_path.name.lower().replace("-", "_")
    postgresql.make_database(database)
    access: dict[str, Any] = {"host": "127.0.0.1", "port": postgresql.port, "password": postgresql.password}
    connection = {**access, "conn_type": "postgres", "schema": database, "login": postgresql.user, "extra": {}}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(connection))
    with psycopg.connect(**access, dbname=database, user=postgresql.user, autocommit=True) as opened:
        opened.execute("create schema shop")
        pipeline = flights.write_pipeline(
            "flights",
            identifier_columns=["flight_id"],
            changelog={"keep": "7d"},
            sink={"type": "postgres", "table": "shop.{table}"},
        )
        pipeline.write_text(pipeline.read_text().replace("  type: postgres", "  type: postgres\n  conn_id: shop"))
        flights.lake.append((1, "AA"), (2, "UA"))
        yield Shop(flights=flights, connection=opened)


def test_a_table_follows_a_table_and_is_verified(shop: Shop, postgresql: Postgresql) -> None:
    validated = icefloe("validate", "flights")
    assert validated.code == 0, validated.out
    assert shop.connection.execute("select to_regclass('shop.icefloe_token')").fetchone() == (None,)
    shop.run()
    lake = shop.flights.lake
    lake.replace_carrier(1, "B6")
    lake.table.delete("flight_id = 2")
    lake.append((3, "DL"))
    shop.run()
    with lake.table.update_schema() as update:
        update.rename_column("carrier", "Carrier")
    lake.table.delete("flight_id = 3")
    shop.run()
    assert shop.rows() == [(1, "B6")]
    verified = icefloe("verify", "flights")
    assert (verified.code, "holds exactly the 1 rows of nyc.flights" in verified.out) == (0, True), verified.err
    traced = icefloe("trace", "flights", "flight_id=1")
    assert (traced.code, "B6" in traced.out) == (0, True), traced.err
    assert files_with(postgresql.password, [shop.flights.folder]) == []

    shop.connection.execute("update shop.flights set flight_id = 9")
    assert icefloe("verify", "flights").code == 65
    assert icefloe("reset", "flights", "--yes").code == 0
    shop.run()
    assert (shop.rows(), icefloe("verify", "flights").code) == ([(1, "B6")], 0)


def test_a_batch_that_comes_while_rows_are_read_is_no_difference(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.run()
    read, came = PostgresSink.read_range, list[bool]()

    def after_a_batch(sink: PostgresSink, *given: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        if not came:
            came.append(True)
            shop.flights.lake.replace_carrier(1, "B6")
            shop.run()
        return read(sink, *given, **named)

    monkeypatch.setattr(PostgresSink, "read_range", after_a_batch)
    verified = icefloe("verify", "flights")
    assert (verified.code, came) == (0, [True]), verified.err


def test_batches_are_delivered_once_more_into_another_table(shop: Shop) -> None:
    shop.run()
    shop.flights.lake.replace_carrier(2, "DL")
    shop.run()
    other = shop.flights.folder / "other.yaml"
    other.write_text("sink: {type: postgres, conn_id: shop, table: shop.again}\n")
    shop.flights.lake.append((3, "B6"))
    shop.run()
    assert icefloe("deliver", "flights", "--sink", str(other), "--batches", "0-0").code == 0
    gap = icefloe("deliver", "flights", "--sink", str(other), "--batches", "2-2")
    assert (gap.code, "deliver the batches between them first" in gap.err) == (65, True), gap.err
    for _ in range(2):
        assert icefloe("deliver", "flights", "--sink", str(other), "--batches", "0-2").code == 0
    assert shop.connection.execute("select * from shop.again order by 1").fetchall() == shop.rows()
    assert icefloe("deliver", "flights", "--batches", "0-0").code == 0
    assert shop.rows() == [(1, "AA"), (2, "DL"), (3, "B6")]


def test_another_table_is_refused_by_name_of_the_key(shop: Shop) -> None:
    shop.run()
    pipeline = shop.flights.lake.pipelines / "flights.yaml"
    written = pipeline.read_text()
    pipeline.write_text(written.replace("shop.{table}", "shop.elsewhere"))
    shop.flights.lake.append((3, "DL"))
    refused = icefloe("run", "flights")
    assert (refused.code, "sink.table" in refused.err) == (65, True), refused.err
