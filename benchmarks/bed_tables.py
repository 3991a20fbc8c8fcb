"""The tables of the benchmark of whole runs: flights by day, of which Spark changed one row in 820 or appended some.

Of each change there are two tables. One is written with settings that suit the fast ways of map tasks: a task reads one
file and writes one, in its order. The other, ``..._defaults``, has the defaults of Spark and Iceberg, and more columns
whose values hardly repeat: timestamps and doubles.
"""

import hashlib
from collections.abc import Collection, Mapping
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
_DEFAULTS: Final = "_defaults"
_CHANGES: Final = {
    "update": _UPDATE,
    "delete": f"DELETE FROM {{table}} WHERE {CHANGED}",
    "merge": (
        f"MERGE INTO {{table}} USING (SELECT flight_id FROM {{table}} WHERE {CHANGED}) AS source "
        "ON {table}.flight_id = source.flight_id WHEN MATCHED THEN UPDATE SET arr_delay = coalesce(arr_delay, 0) + 1"
    ),
}
BEDS: Final[Mapping[str, str]] = {
    FIXED: _UPDATE,
    **_CHANGES,
    **{f"{bed}{_DEFAULTS}": statement for bed, statement in _CHANGES.items()},
    **{
        bed: f"INSERT INTO {{table}} SELECT {{columns}} FROM range({FIXED_ROWS}, {FIXED_ROWS + rows}, 1, 2)"
        for bed, rows in APPENDED.items()
    },
}
_FOR_FAST_WAYS: Final = {
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    "read.split.open-file-cost": str(256 << 20),
}


def bed_tables(folder: Path, rows: int, beds: Collection[str]) -> Path:
    """The warehouse of the tables of some beds, written by Spark unless a former run left them there.

    Each table is named after its bed. Its first snapshot appends ``rows`` rows, of `FIXED` and of tables that are
    appended to fewer; its second changes some of them by copy-on-write, or appends.

    Returns:
        The folder with ``catalog.db`` and ``warehouse``.
    """
    folder /= str(rows)
    folder.mkdir(parents=True, exist_ok=True)
    missing = [bed for bed in beds if not _done(folder, bed).exists()]
    if missing:
        # A process of its own, because a JVM lives as long as the Python that started it.
        writer = get_context("spawn").Process(target=_write_all, args=(folder, rows, missing))
        writer.start()
        writer.join()
        if writer.exitcode:
            raise RuntimeError(f"Spark did not write the tables in {folder}")
    return folder


def _done(folder: Path, bed: str) -> Path:
    """The marker of a table that is whole, and was written as this version of the benchmark writes it."""
    written = repr((BEDS[bed], _columns(bed), _properties(bed)))
    return folder / f"{bed}-{hashlib.sha256(written.encode()).hexdigest()[:16]}.done"


def _write_all(folder: Path, rows: int, beds: Collection[str]) -> None:
    lab = SparkLab.start(folder, heap="3g")
    # Generated code, which the lab of the tests goes without, because their tables are small.
    lab.spark.conf.set("spark.sql.codegen.wholeStage", "true")
    lab.spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    # A source that is too large to broadcast, as most are, loses the order of the rows.
    lab.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        for bed in beds:
            _write(lab, bed, FIXED_ROWS if bed in (FIXED, *APPENDED) else rows)
            _done(folder, bed).touch()
    finally:
        lab.stop()


def _write(lab: SparkLab, bed: str, rows: int) -> None:
    table = f"{CATALOG}.{NAMESPACE}.{bed}"
    selected = ", ".join(f"{expression} AS {column}" for column, expression in _columns(bed).items())
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in _properties(bed).items())
    lab.spark.range(0, rows, 1, -(-rows // DAY_ROWS)).createOrReplaceTempView("numbers")
    lab.sql(f"DROP TABLE IF EXISTS {table} PURGE")
    lab.sql(f"CREATE TABLE {table} USING iceberg PARTITIONED BY (days(time_hour)) TBLPROPERTIES ({properties})"
            f" AS SELECT {selected} FROM numbers")  # fmt: skip
    lab.sql(BEDS[bed].format(table=table, columns=selected))


def _properties(bed: str) -> Mapping[str, str]:
    return {"format-version": "2", **({} if bed.endswith(_DEFAULTS) else _FOR_FAST_WAYS)}


def _columns(bed: str) -> Mapping[str, str]:
    day = f"1356998400 + 86400 * (id div {DAY_ROWS}) + 3600 * (pmod(id, {DAY_ROWS}) * 24 div {DAY_ROWS})"
    columns = {
        **flight_columns(),
        # Not in the order of the key, as in most tables: a writer that sorts by the key loses the order.
        "flight_id": "if(id < 0, null, xxhash64(id))",
        "time_hour": f"timestamp_seconds({day})",
    }
    if not bed.endswith(_DEFAULTS):
        return columns
    moments = {
        name: f"timestamp_micros(1000000 * ({day}) + pmod(xxhash64(id, '{name}'), 86400000000))"
        for name in ("dep_time", "arr_time", "sched_dep_time", "sched_arr_time")
    }
    measures = {
        name: f"cast(pmod(xxhash64(id, '{name}'), 1000000007) as double) / 1000003"
        for name in ("dep_delay", "air_time", "distance")
    }
    return {**columns, **moments, **measures}
