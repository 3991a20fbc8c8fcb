"""Tables of five commits whose history then moves, and what pipelines over them deliver."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.iceberg.history.history import is_replace
from icefloe.iceberg.step import StepKind
from spark.range_check import changes_of, check_range
from support.pipelines.workshop import Workshop
from support.spark.java_rows import JavaStates
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import Row
from support.spark.spark_table import CreateTable, SparkTable


def create_moving_table(create_table: CreateTable, *, format_version: int = 2) -> SparkTable:
    """Five commits: rows, more rows, an update, a delete, an update of rows of all files, as Spark's would be."""
    made = create_table("id bigint, v int", mode="merge-on-read", format_version=format_version)
    java = JavaWriters(made)
    [first] = java.data_files([(number, 0) for number in range(20)])
    java.append([first])
    [second] = java.data_files([(number, 0) for number in range(20, 30)])
    java.append([second])
    [updated] = change(java, {first: [3, 4], second: [5]}, [(3, 1), (4, 1), (25, 1)])
    change(java, {first: [5, 6], updated: [1]})
    change(java, {first: [7], second: [6], updated: [0]}, [(3, 2), (7, 2), (26, 2)])
    return made


def change(java: JavaWriters, deleted: Mapping[Any, list[int]], rows: Sequence[tuple[int, int]] = ()) -> list[Any]:
    """One commit that deletes by position, and the files of the rows that it adds."""
    added = java.data_files(rows) if rows else []
    if java.table.load().format_version >= 3:
        vectors = java.deletion_vectors(deleted)
        java.row_delta(rows=added, deletes=vectors.added, removed_deletes=vectors.rewritten)
    else:
        java.row_delta(rows=added, deletes=java.position_deletes(deleted))
    return added


def insert(table: SparkTable, start: int, stop: int) -> None:
    java = JavaWriters(table)
    java.append(java.data_files([(number, 0) for number in range(start, stop)]))


def call(table: SparkTable, procedure: str, *arguments: object) -> None:
    """One of Iceberg's procedures on the table."""
    given = "".join(f", {argument}" for argument in arguments)
    table.lab.sql(f"CALL lab.system.{procedure}('{table.identifier}'{given})")


def head(table: SparkTable, ref: str = "main") -> int:
    return table.load().metadata.refs[ref].snapshot_id


def states_of(table: SparkTable, *snapshot_ids: int | None) -> dict[int | None, Counter[Row]]:
    java = JavaStates(table)
    return {snapshot_id: java.rows_at(snapshot_id) for snapshot_id in snapshot_ids}


def check_steps(table: SparkTable, after: int | None, *ends: int, **options: Any) -> None:
    """The changes after a snapshot are the differences from state to state, with and without an identity."""
    states = states_of(table, after, *ends)
    for identity in (["id"], []):
        found = changes_of(table, after, identifier_columns=identity, **options)
        check_range(found, states, [after, *ends], identity)


def followed(table: SparkTable, folder: Path, **keys: Any) -> Workshop:
    """A pipeline over the table."""
    catalog = {"name": "lab", **table.lab.catalog_properties}
    return Workshop(folder=folder, table=table.load()).set(catalog=catalog, table=table.identifier, **keys)


def check_batch(workshop: Workshop, table: SparkTable, ends: Sequence[int], kinds: Sequence[StepKind] = ()) -> None:
    """The next batch has steps to these states."""
    batch = workshop.open()
    after = batch.plan.spec.after_snapshot_id
    assert [step.end_snapshot_id for step in batch.plan.spec.steps] == list(ends)
    assert not kinds or [step.kind for step in batch.plan.spec.steps] == list(kinds)
    report = batch.deliver()
    states = states_of(table, after, *ends)
    found = workshop.changes(report.batch.batch_number)
    check_range(found.drop_columns(["_batch"]) if found.num_columns else found, states, [after, *ends], ["id"])
    assert verify_batches(workshop.session()).is_equal


def compact(table: SparkTable, procedure: str) -> None:
    """One of Iceberg's rewrites, told to rewrite all there is."""
    options = ", options => map('rewrite-all', 'true')" if procedure != "rewrite_manifests" else ""
    table.lab.sql(f"CALL lab.system.{procedure}(table => '{table.identifier}'{options})")


def changing(table: SparkTable) -> list[int]:
    """The lineage without compactions."""
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.load().metadata.snapshots}
    return [snapshot_id for snapshot_id in table.snapshot_ids() if not is_replace(snapshots[snapshot_id])]
