"""The tables of the benchmark of whole runs: flights by day, of which Spark changed one row in 820 or appended some."""

import shutil
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from benchmarks.kernel_beds import CHANGED
from benchmarks.rewritten_table import flight_columns
from support.spark.spark_lab import CATALOG, NAMESPACE, SparkLab

__all__ = ["APPENDED", "BEDS", "DAY_ROWS", "FIXED", "FIXED_ROWS", "bed_tables"]

DAY_ROWS: Final = 1_000_000
"""One data file a day, of about 30 MB."""
FIXED: Final = "fixed"
FIXED_ROWS: Final = 1_000
"""The rows of the table of which a run costs nothing but its start."""
APPENDED: Final = {"insert_100k": 100_000, "insert_1m": 1_000_000}
"""Tables of `FIXED_ROWS` rows to which so many are appended."""
_UPDATE: Final = f"UPDATE {{table}} SET arr_delay = coalesce(arr_delay, 0) + 1 WHERE {CHANGED}"
BEDS: Final[Mapping[str, str]] = {
    FIXED: _UPDATE,
    "update": _UPDATE,
    "delete": f"DELETE FROM {{table}} WHERE {CHANGED}",
    "merge": (
        f"MERGE INTO {{table}} USING (SELECT flight_id FROM {{table}} WHERE {CHANGED}) AS source "
        "ON {table}.flight_id = source.flight_id WHEN MATCHED THEN UPDATE SET arr_delay = coalesce(arr_delay, 0) + 1"
    ),
    **{
        bed: f"INSERT INTO {{table}} SELECT {{columns}} FROM range({FIXED_ROWS}, {FIXED_ROWS + rows}, 1, 2)"
        for bed, rows in APPENDED.items()
    },
}
_PROPERTIES: Final = {
    "format-version": "2",
    # A task reads one file and writes one, in the order in which it reads.
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    "read.split.open-file-cost": str(256 << 20),
}


def bed_tables(folder: Path, rows: int) -> Path:
    """The warehouse of the tables, written by Spark unless a former run left it there.

    Each table is named after its bed. Its first snapshot appends ``rows`` rows, of `FIXED` and of tables that are
    appended to fewer; its second changes some of them by copy-on-write, or appends.

    Returns:
        The folder with ``catalog.db`` and ``warehouse``.
    """
    folder /= str(rows)
    done = folder / "done"
    if not done.exists() or done.read_text() != _names():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        # A process of its own, because a JVM lives as long as the Python that started it.
        writer = get_context("spawn").Process(target=_write_all, args=(folder, rows))
        writer.start()
        writer.join()
        if writer.exitcode:
            raise RuntimeError(f"Spark did not write the tables in {folder}")
        done.write_text(_names())
    return folder


def _names() -> str:
    """The beds of this version of the benchmark: a former one may have left fewer."""
    return "\n".join(BEDS)


def _write_all(folder: Path, rows: int) -> None:
    lab = SparkLab.start(folder, heap="3g")
    # Generated code, which the lab of the tests goes without, because their tables are small.
    lab.spark.conf.set("spark.sql.codegen.wholeStage", "true")
    lab.spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    # A source that is too large to broadcast, as most are, loses the order of the rows.
    lab.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        for bed, statement in BEDS.items():
            _write(lab, f"{CATALOG}.{NAMESPACE}.{bed}", statement, FIXED_ROWS if bed in (FIXED, *APPENDED) else rows)
    finally:
        lab.stop()


def _write(lab: SparkLab, table: str, statement: str, rows: int) -> None:
    columns = {
        **flight_columns(),
        # Not in the order of the key, as in most tables: a writer that sorts by the key loses the order.
        "flight_id": "if(id < 0, null, xxhash64(id))",
        "time_hour": f"timestamp_seconds(1356998400 + 86400 * (id div {DAY_ROWS})"
        f" + 3600 * (pmod(id, {DAY_ROWS}) * 24 div {DAY_ROWS}))",
    }
    selected = ", ".join(f"{expression} AS {column}" for column, expression in columns.items())
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in _PROPERTIES.items())
    lab.spark.range(0, rows, 1, -(-rows // DAY_ROWS)).createOrReplaceTempView("numbers")
    lab.sql(f"CREATE TABLE {table} USING iceberg PARTITIONED BY (days(time_hour)) TBLPROPERTIES ({properties})"
            f" AS SELECT {selected} FROM numbers")  # fmt: skip
    lab.sql(statement.format(table=table, columns=selected))
