"""An Airflow home with pipelines in every state, made by real runs: `python -m page.stage FOLDER`.

It must run in a process of its own, because Airflow reads its environment when it is imported.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from page.staged_table import StagedTable, catalog_properties
from support.servers.postgresql import Postgresql
from support.spark.spark_lab import sqlite_conf

__all__ = ["airflow_variables", "main", "stage", "stage_tables"]

REPOSITORY: Final = Path(__file__).parents[2]
BATCHES: Final = 12
CHECKS: Final = [
    {"name": "every_order_has_a_note", "query": "SELECT id FROM changes WHERE note IS NULL"},
    {"name": "few_orders_change", "query": "SELECT * FROM changes WHERE _change_type = 'UPDATE_AFTER'"},
]
GROUP: Final = """
from airflow.sdk import DAG

from icefloe import batch_task_group

with DAG("shop_report", schedule=None):
    batch_task_group("pipelines/orders_mirror.yaml", group_id="orders")
"""


def airflow_variables(folder: Path) -> dict[str, str]:
    """The settings of this home."""
    return {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPOSITORY / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "ICEFLOE_OWNER": "icefloe-stage",
        "AIRFLOW_CONN_SHOP": json.dumps({"conn_type": "postgres", "host": "127.0.0.1"}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_CONN_LAKEHOUSE": json.dumps({"conn_type": "iceberg", "extra": catalog_properties(folder)}),
    }


def stage(folder: Path, *, batches: int = BATCHES) -> None:
    """Makes tables, runs their pipelines, and leaves each in another state; no batches: no pipelines either."""
    if not batches:
        stage_nothing(folder)
        return
    pipelines = _make_dags(folder)
    tables = {
        name: StagedTable.create(folder, f"{name}")
        for name in ("nyc.flights", "shop.orders", "iot.readings", "web.sessions")
    }
    _write(
        folder,
        "flights",
        "nyc.flights",
        identifier_columns=["id"],
        shuffle={"map_task_bytes": "16KiB", "target_size_bytes": "4KiB", "partitions": 64},
    )
    documents = {"type": "documents", "folder": f"{folder}/documents"}
    _write(folder, "orders", "shop.orders", schedule="*/15 * * * *", sink=documents)
    _write(folder, "readings", "iot.readings")
    _write(folder, "web_sessions", "web.sessions")
    _write(folder, "clicks", "web.clicks", wait_for_table=True)
    (pipelines / "customers.yaml").write_text(
        "version: 1\ncatalog: lakehouse\ntabel: crm.customers\nstorage: file:///tmp\n"
    )
    from page.staged_runs import StagedRuns

    runs = StagedRuns.start(folder)
    flights, orders, readings, sessions = tables.values()
    for number in range(batches):
        flights.append(600 + 350 * (number % 5)) if number % 3 != 2 else flights.update(90 + 20 * number)
        runs.run("flights")
    for number in range(max(2, batches // 2)):
        orders.append(400 + 90 * number)
        runs.run("orders")
    orders.append(150)
    orders.update(40)
    runs.pause("orders")
    for number in range(2):
        readings.append(2000 + 1000 * number)
        runs.run("readings")
    readings.recreate()
    readings.append(10)
    runs.run("readings")
    for _ in range(3):
        sessions.append(800)
        runs.run("web_sessions")
    sessions.update(60)
    runs.run("web_sessions")
    runs.leave_open("web_sessions", 3, at="shuffle_read")
    flights.append(5)
    runs.run("flights")


def stage_tables(folder: Path) -> None:
    """A home whose pipelines deliver into tables, a load and a batch of changes each; one fails a check."""
    pipelines = _make_dags(folder)
    (pipelines.parent / "shop_report.py").write_text(GROUP)
    orders = StagedTable.create(folder, "shop.orders", is_partitioned=True)
    orders.catalog.create_namespace("copies")
    copies = {"type": "iceberg", "catalog": "lakehouse", "table": "copies.{pipeline}"}
    with Postgresql() as database:
        database.make_database("shop")
        connection = {
            "conn_type": "postgres", "host": "127.0.0.1", "port": database.port, "schema": "shop",
            "login": database.user, "password": database.password,
        }  # fmt: skip
        os.environ["AIRFLOW_CONN_SHOP"] = json.dumps(connection)
        sinks: dict[str, dict[str, Any]] = {
            "orders_mirror": {**copies, "mode": "mirror"},
            "orders_history": {**copies, "mode": "history"},
            "orders_database": {"type": "postgres", "conn_id": "shop", "table": "public.orders"},
            "orders_spark": {"type": "spark", "table": "lakehouse.copies.{pipeline}", "mode": "merge"},
        }
        for name, sink in sinks.items():
            _write(folder, name, "shop.orders", sink=sink)
        warns = [{**check, "on_failure": "warn"} for check in CHECKS]
        _write(folder, "orders_mirror", "shop.orders", sink=sinks["orders_mirror"], checks=warns)
        _write(folder, "orders_checked", "shop.orders", checks=CHECKS)
        further = {"engine": "auto", "spark": {"conf": sqlite_conf("lakehouse", folder)}}
        _write(folder, "orders_spark", "shop.orders", sink=sinks["orders_spark"], **further)
        from page.staged_runs import StagedRuns

        runs = StagedRuns.start(folder)
        for change in (orders.append, orders.update):
            change(1200)
            for name in sinks:
                _require(runs.run(name), "success", of=name)
            _require(
                runs.run("orders_checked"), "success" if change == orders.append else "failed", of="orders_checked"
            )
        _require(runs.run("shop_report"), "success", of="shop_report")


def _require(ended: str, expected: str, *, of: str) -> None:
    if ended != expected:
        raise RuntimeError(f"the run of {of} ended in {ended}")


def _make_dags(folder: Path) -> Path:
    """The DAG file, and the folder of pipelines beside it."""
    shutil.copytree(REPOSITORY / "dags", folder / "dags", ignore=shutil.ignore_patterns("__pycache__", "pipelines"))
    pipelines = folder / "dags" / "pipelines"
    pipelines.mkdir()
    return pipelines


def stage_nothing(folder: Path) -> None:
    """A home as it is on the first day."""
    (folder / "dags").mkdir()
    from airflow.utils.db import initdb

    initdb()


def _write(folder: Path, name: str, table: str, **keys: Any) -> None:
    minimal: Mapping[str, Any] = {
        "version": 1,
        "catalog": "lakehouse",
        "table": table,
        "storage": f"file://{folder}/storage",
        "sink": {"type": "files", "path": f"file://{folder}/changes/{name}"},
        "engine": "local",
        "default_args": {"retries": 0},
    }
    (folder / "dags" / "pipelines" / f"{name}.yaml").write_text(yaml.safe_dump({**minimal, **keys}))


def main() -> None:
    """Stages the folder of the command line; a second argument is the number of batches, or ``tables``."""
    folder = Path(sys.argv[1]).resolve()
    os.environ.update(airflow_variables(folder))
    from support.sinks.document_folder import registered

    if sys.argv[2:] == ["tables"]:
        stage_tables(folder)
        return
    with registered():
        stage(folder, batches=int(sys.argv[2]) if len(sys.argv) > 2 else BATCHES)


if __name__ == "__main__":
    main()
