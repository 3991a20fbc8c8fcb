"""A small Iceberg table in a catalog on SQLite, a pipeline that follows it, and what the pipeline delivered."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pyiceberg.expressions import EqualTo
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from support.catalogs import open_sql_catalog, sql_properties
from support.pipelines.pipeline_files import write_pipeline
from support.pipelines.replay import delivered_changes

__all__ = ["Lake", "TaskStates"]

SCHEMA = Schema(
    NestedField(1, "flight_id", LongType(), required=True),
    NestedField(2, "carrier", StringType()),
    identifier_field_ids=[1],
)
ARROW = pa.schema([pa.field("flight_id", pa.int64(), nullable=False), pa.field("carrier", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStates:
    """The end of a run."""

    run_state: str
    by_task: Mapping[str, str]
    run_id: str

    def in_state(self, state: str) -> set[str]:
        return {task_id for task_id, found in self.by_task.items() if found == state}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """The table ``nyc.flights`` and the folders around it."""

    folder: Path
    pipelines: Path
    table: Table

    @classmethod
    def create(cls, folder: Path, pipelines: Path) -> Self:
        catalog = open_sql_catalog("lakehouse", folder)
        catalog.create_namespace("nyc")
        return cls(folder=folder, pipelines=pipelines, table=catalog.create_table("nyc.flights", schema=SCHEMA))

    @classmethod
    def of_daemons(cls, folder: Path, dag_file: str) -> Self:
        """The same in the home of Airflow's daemons, with the text of the file that makes DAGs of the pipelines."""
        pipelines = folder / "airflow" / "dags" / "pipelines"
        pipelines.mkdir(parents=True)
        (pipelines.parent / "icefloe_pipelines.py").write_text(dag_file)
        return cls.create(folder, pipelines)

    @property
    def connection(self) -> str:
        return json.dumps({"conn_type": "iceberg", "extra": sql_properties(self.folder)})

    def write_pipeline(self, name: str, **keys: Any) -> None:
        own = {
            "storage": f"file://{self.folder}/storage",
            "sink": {"type": "files", "path": f"file://{self.folder}/changes"},
            "engine": "local",
            "schedule": "0 * * * *",
            "default_args": {"retries": 0},
        }
        write_pipeline(self.pipelines, name, **{**own, **keys})

    def append(self, *rows: tuple[int, str]) -> int:
        self.table.append(_rows(rows))
        return self.current_snapshot_id()

    def replace_carrier(self, flight_id: int, carrier: str) -> int:
        """A copy-on-write update of one row."""
        self.table.overwrite(_rows([(flight_id, carrier)]), overwrite_filter=EqualTo(term="flight_id", value=flight_id))
        return self.current_snapshot_id()

    def changes(self, batch_number: int, *, below: str = "") -> Counter[tuple[str, int, str]]:
        """The changes of a batch: (change type, flight_id, carrier), counted."""
        rows = delivered_changes(self.folder / "changes" / below / f"batch={batch_number}")
        return Counter((row["_change_type"], row["flight_id"], row["carrier"]) for row in rows)

    def backfills(self) -> list[str]:
        folder = self.folder / "changes" / "_backfills"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def current_snapshot_id(self) -> int:
        snapshot = self.table.refresh().current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id


def _rows(rows: Any) -> pa.Table:
    return pa.Table.from_pylist([{"flight_id": flight_id, "carrier": carrier} for flight_id, carrier in rows], ARROW)
