"""The recipes of docs/recipes.md, executed on the table of the pages."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from jinja2 import Environment

from icefloe.cli.command_line import main
from icefloe.iceberg.catalog.catalogs import load_catalog, load_table
from support.catalogs import sql_properties
from support.pages.blocks import Block
from support.pages.claims import Kind, claimed
from support.pipelines.flights import Flights

RECIPES = [block for block in claimed(Kind.PYTHON) if block.page == "docs/recipes.md"]
IN_PROCESS = [block for block in RECIPES if "spark" not in block.text]
BY_SPARK = [block for block in RECIPES if "spark" in block.text]


def result(block: Block, flights: Flights, **names: Any) -> Any:
    after = flights.lake.append((1, "AA"))
    flights.lake.append((2, "UA"), (3, "DL"))
    assert "4711" in block.text
    names["table"] = flights.lake.table
    exec(block.text.replace("4711", str(after)), names)
    return names["changes"]


@pytest.mark.parametrize("block", IN_PROCESS, ids=str)
def test_changes_are_read_by_a_library(block: Block, flights: Flights) -> None:
    assert len(result(block, flights)) == 2


@pytest.mark.spark
@pytest.mark.parametrize("block", BY_SPARK, ids=str)
def test_changes_are_read_by_spark(block: Block, flights: Flights, spark_lab: Any) -> None:
    class Reader:
        """The session's own, with the catalog of this test: the JVM began before it had a configuration."""

        def format(self, name: str) -> Any:
            properties = {f"catalog.{key}": value for key, value in sql_properties(flights.folder).items()}
            return spark_lab.spark.read.format(name).options(**properties, **{"catalog.name": "lakehouse"})

    class Session:
        read = Reader()

        def __getattr__(self, name: str) -> Any:
            return getattr(spark_lab.spark, name)

    text = block.text.replace('        .option("catalog", "lakehouse")\n', "")
    changes = result(replace(block, text=text), flights, spark=Session())
    assert sorted(row.carrier for row in changes.collect()) == ["DL", "UA"]


@pytest.mark.parametrize("first", ["some", "no"])
def test_a_model_of_dbt_follows_the_changelog(flights: Flights, tmp_path: Path, first: str) -> None:
    """The model is built first from some changes, or from none."""
    [model] = claimed(Kind.DBT)
    load_catalog({"name": "lakehouse", **sql_properties(flights.folder)}).create_namespace_if_not_exists("changes")
    sink = {"type": "iceberg", "catalog": "lakehouse", "table": "changes.flights", "mode": "changelog"}
    pipeline = flights.write_pipeline("flights", sink=sink, identifier_columns=["flight_id"])
    for number, change in enumerate(
        (
            *([] if first == "some" else [lambda: emptied(flights)]),
            lambda: flights.lake.append((1, "AA"), (2, "UA"), (3, "DL")),
            lambda: flights.lake.replace_carrier(2, "B6"),
            lambda: flights.lake.table.refresh().delete("flight_id = 1"),
        )
    ):
        change()
        assert main(["run", str(pipeline)]) == 0
        build(model.text, flights, is_first=number == 0, database=tmp_path / "dbt.db")
    with duckdb.connect(str(tmp_path / "dbt.db")) as connection:
        found = connection.sql("SELECT flight_id, carrier, is_deleted, _batch FROM model ORDER BY 1").fetchall()
    assert [row[:3] for row in found] == [(1, "AA", True), (2, "B6", False), (3, "DL", False)]
    assert [found[0][3] - row[3] for row in found] == [0, 1, 2]


def emptied(flights: Flights) -> None:
    flights.lake.append((0, "AA"))
    flights.lake.table.refresh().delete("flight_id = 0")


def build(model: str, flights: Flights, *, is_first: bool, database: Path) -> None:
    """As dbt does it: a new table, or delete by the unique key and insert."""
    given: dict[str, str] = {}
    names = {
        "config": lambda **arguments: given.update(arguments) or "",
        "source": lambda *_: "changelog",
        "this": "model",
        "is_incremental": lambda: not is_first,
    }
    compiled = Environment().from_string(model).render(names)
    changelog = load_table({"name": "lakehouse", **sql_properties(flights.folder)}, "changes.flights").scan().to_arrow()
    assert given["incremental_strategy"] == "delete+insert"
    key = given["unique_key"]
    with duckdb.connect(str(database)) as connection:
        connection.register("changelog", changelog)
        if is_first:
            connection.execute(f"CREATE TABLE model AS {compiled}")
            return
        connection.execute(f"CREATE TEMP TABLE new AS {compiled}")
        connection.execute(f"DELETE FROM model WHERE {key} IN (SELECT {key} FROM new)")
        connection.execute("INSERT INTO model SELECT * FROM new")
