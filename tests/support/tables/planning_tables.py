"""Small tables for the tests of planning, and the oracle that knows nothing of manifests added or deleted."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary

from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage
from icefloe.iceberg.scan.scan_tasks import ScanPlan
from icefloe.iceberg.scan.steps import SnapshotRange
from icefloe.iceberg.step import Step, StepKind
from support.catalogs import open_sql_catalog


def make_catalog(folder: Path, name: str = "default") -> SqlCatalog:
    catalog = open_sql_catalog(name, folder)
    catalog.create_namespace_if_not_exists("db")
    return catalog


def rows(*ids: int, value: str = "a", day: int = 1) -> pa.Table:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("value", pa.string()), ("day", pa.int32())])
    return pa.table({"id": list(ids), "value": [value] * len(ids), "day": [day] * len(ids)}, schema=schema)


def make_table(folder: Path, *, name: str = "events", format_version: int = 2, **properties: str) -> Table:
    catalog = make_catalog(folder)
    return catalog.create_table(
        f"db.{name}", rows().schema, properties={"format-version": str(format_version), **properties}
    )


def appended(folder: Path, count: int, **options: Any) -> Table:
    """A table of so many commits, each of one row."""
    table = make_table(folder, **options)
    for number in range(count):
        table.append(rows(number))
    return table


def snapshot_ids(table: Table) -> list[int]:
    """In the order of commit."""
    return [snapshot.snapshot_id for snapshot in table.metadata.snapshots]


def plan_range(table: Table, **options: Any) -> SnapshotRange:
    """The range of a table, as it is now."""
    loaded = LoadedTable(table)
    own = {name: options.pop(name) for name in ("commit_groups", "max_steps") if name in options}
    return SnapshotRange.of_passage(Passage.find(loaded, **options), loaded, **own)


def plan_scan_tasks(table: Table, of: Sequence[Step], **options: Any) -> ScanPlan:
    """The files that steps of a table read, as it is now."""
    return ScanPlan.of(LoadedTable(table), of, **options)


def live_files(table: Table, snapshot_id: int | None) -> Counter[str]:
    if snapshot_id is None:
        return Counter()
    return Counter(table.inspect.files(snapshot_id)["file_path"].to_pylist())


def expected_weights(table: Table, step: Step) -> dict[str, int]:
    """The difference of the live files of two states."""
    start = None if step.kind is StepKind.INITIAL else step.start_snapshot_id
    difference = live_files(table, step.end_snapshot_id)
    difference.subtract(live_files(table, start))
    return {path: weight for path, weight in difference.items() if weight}


def planned_weights(plan: ScanPlan, ordinal: int) -> dict[str, int]:
    weights: Counter[str] = Counter()
    for task in plan.tasks:
        weights[task.data_file.path] += sum(t.weight for t in task.terms if t.change_ordinal == ordinal)
    return {path: weight for path, weight in weights.items() if weight}


def edit_metadata(table: Table, **changes: Any) -> None:
    """Change the loaded metadata, as another writer would have left it."""
    table.metadata = table.metadata.model_copy(update=changes)


def as_replace(table: Table, snapshot_id: int) -> None:
    """Give a snapshot the operation of a compaction."""
    edited = [
        snapshot.model_copy(update={"summary": Summary(Operation.REPLACE, **snapshot.summary.additional_properties)})
        if snapshot.snapshot_id == snapshot_id
        else snapshot
        for snapshot in table.metadata.snapshots
    ]
    edit_metadata(table, snapshots=edited)
