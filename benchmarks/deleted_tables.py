"""The benchmark's merge-on-read tables: 2 million rows of 19 columns, of which 1 % is updated in three ways."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from benchmarks.rewritten_table import ROWS, flight_columns
from support.spark.java_writers import JavaWriters
from support.spark.spark_lab import SparkLab
from support.spark.spark_table import SparkTable

__all__ = ["COMMITS", "KINDS", "deleted_tables"]

COMMITS: Final = 100
"""Of the table with equality deletes."""
_SCATTERED: Final = "pmod(xxhash64(flight_id, 'chosen'), 100) = 0"


def deleted_tables(folder: Path) -> Mapping[str, Table]:
    """The tables in ``folder``, written by Spark and Iceberg's writers unless a former run left them there.

    In each the first snapshot appends one data file; the others update ``arr_delay`` of scattered rows.
    """
    done = folder / "done"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        lab = SparkLab.start(folder, cores=1, heap="3g")
        try:
            for kind, write in KINDS.items():
                write(lab, kind)
        finally:
            lab.stop()
        done.touch()
    properties = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    catalog = SqlCatalog("lab", **properties)
    return {kind: catalog.load_table(f"db.{kind}") for kind in KINDS}


def _base(lab: SparkLab, kind: str, format_version: int) -> SparkTable:
    table = SparkTable(lab=lab, name=f"{lab.catalog.name}.db.{kind}", identifier=f"db.{kind}")
    columns = [f"{expression} AS {column}" for column, expression in flight_columns().items()]
    rows = lab.spark.range(0, ROWS, 1, 1).selectExpr(*columns).writeTo(table.name).using("iceberg")
    properties = {
        "format-version": str(format_version),
        "write.distribution-mode": "none",
        "write.update.mode": "merge-on-read",
        "write.delete.granularity": "file",
    }
    for key, value in properties.items():
        rows = rows.tableProperty(key, value)
    rows.create()
    return table


def _by_spark(format_version: int) -> Callable[[SparkLab, str], None]:
    def write(lab: SparkLab, kind: str) -> None:
        table = _base(lab, kind, format_version)
        table.sql(f"UPDATE {{table}} SET arr_delay = coalesce(arr_delay, 0) + 1 WHERE {_SCATTERED}")

    return write


def _by_keys(lab: SparkLab, kind: str) -> None:
    """As Flink's sink writes a stream of upserts: in each commit the keys, deleted by equality, and their new rows."""
    table = _base(lab, kind, 2)
    changed = table.sql(f"SELECT * FROM {{table}} WHERE {_SCATTERED}")
    delays = pa.array([(delay or 0) + 1 for delay in changed["arr_delay"].to_pylist()], pa.float64())
    changed = changed.set_column(changed.schema.get_field_index("arr_delay"), "arr_delay", delays)
    # A stream does not follow the order of the table.
    changed = changed.sort_by([("dest", "ascending"), ("flight", "ascending")])
    java = JavaWriters(table)
    for number in range(COMMITS):
        rows = changed.take(list(range(number, changed.num_rows, COMMITS))).to_pylist()
        keys = [(row["flight_id"],) for row in rows]
        java.row_delta(rows=java.data_files(rows), deletes=java.equality_deletes(["flight_id"], keys))


KINDS: Final[Mapping[str, Callable[[SparkLab, str], None]]] = {
    "position_deletes": _by_spark(2),
    "deletion_vectors": _by_spark(3),
    "equality_deletes": _by_keys,
}
