"""The recipes of docs/recipes.md, executed on the table of the pages."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from demo.servers.fetching import fetching
from demo.servers.server_process import CACHE
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


@pytest.mark.extended
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", ["some", "no"])
def test_a_model_of_dbt_follows_the_changelog(flights: Flights, tmp_path: Path, first: str) -> None:
    """The model is built first from some changes, or from none."""
    dbt, project = installed_dbt(), dbt_project(tmp_path)
    load_catalog({"name": "lakehouse", **sql_properties(flights.folder)}).create_namespace_if_not_exists("changes")
    sink = {"type": "iceberg", "catalog": "lakehouse", "table": "changes.flights", "mode": "changelog"}
    pipeline = flights.write_pipeline("flights", sink=sink, identifier_columns=["flight_id"])
    for change in (
        *([] if first == "some" else [lambda: emptied(flights)]),
        lambda: flights.lake.append((1, "AA"), (2, "UA"), (3, "DL")),
        lambda: flights.lake.replace_carrier(2, "B6"),
        lambda: flights.lake.table.refresh().delete("flight_id = 1"),
    ):
        change()
        assert main(["run", str(pipeline)]) == 0
        copy_changelog(flights, project / "lake.duckdb")
        done = subprocess.run(
            [dbt, "run", "--profiles-dir", project, "--project-dir", project],
            env={"PATH": os.environ["PATH"], "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    with duckdb.connect(str(project / "lake.duckdb")) as connection:
        found = connection.sql("SELECT flight_id, carrier, is_deleted, _batch FROM latest ORDER BY 1").fetchall()
    assert [row[:3] for row in found] == [(1, "AA", True), (2, "B6", False), (3, "DL", False)]
    assert [found[0][3] - row[3] for row in found] == [0, 1, 2]


def emptied(flights: Flights) -> None:
    flights.lake.append((0, "AA"))
    flights.lake.table.refresh().delete("flight_id = 0")


def installed_dbt() -> Path:
    """The program, in an environment of its own: dbt's packages are others than Airflow's."""
    lock = Path(__file__).with_name("dbt.txt")
    environment = CACHE / f"dbt-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    with fetching("dbt"):
        if not (environment / "installed").exists():
            uv = [sys.executable, "-m", "uv", "--no-cache", "--quiet"]
            subprocess.run([*uv, "venv", "--clear", environment], check=True)
            python = environment / "bin" / "python"
            subprocess.run([*uv, "pip", "install", "--python", python, "--require-hashes", "-r", lock], check=True)
            (environment / "installed").touch()
    return environment / "bin" / "dbt"


def dbt_project(folder: Path) -> Path:
    """With the model of the page."""
    [model] = claimed(Kind.DBT)
    (folder / "models").mkdir()
    (folder / "models" / "latest.sql").write_text(model.text)
    documents: dict[str, Any] = {
        "models/sources.yml": {"sources": [{"name": "changes", "tables": [{"name": "flights"}]}]},
        "dbt_project.yml": {"name": "recipe", "version": "1.0", "profile": "recipe"},
        "profiles.yml": {
            "recipe": {"target": "test", "outputs": {"test": {"type": "duckdb", "path": str(folder / "lake.duckdb")}}}
        },
    }
    for name, document in documents.items():
        (folder / name).write_text(yaml.safe_dump(document))
    return folder


def copy_changelog(flights: Flights, database: Path) -> None:
    changelog = load_table({"name": "lakehouse", **sql_properties(flights.folder)}, "changes.flights").scan().to_arrow()
    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS changes")
        connection.register("read", changelog)
        connection.execute("CREATE OR REPLACE TABLE changes.flights AS FROM read")
