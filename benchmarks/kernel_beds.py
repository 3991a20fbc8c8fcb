"""The kernel benchmark's tables: one data file each, which Spark rewrote to change a few of its rows."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from benchmarks.rewritten_table import flight_columns
from support.spark.spark_lab import SparkLab

__all__ = ["BEDS", "kernel_beds"]

CHANGED: Final = "pmod(xxhash64(flight_id, 'chosen'), 820) = 0"
"""One row in 820: of 41 million rows 50,000."""
_UPDATE: Final = f"UPDATE {{table}} SET arr_delay = coalesce(arr_delay, 0) + 1 WHERE {CHANGED}"
# Joined by sorting, as a source too large to broadcast is: that loses the order of the rows.
_MERGE: Final = (
    f"MERGE INTO {{table}} USING (SELECT flight_id FROM {{table}} WHERE {CHANGED}) AS source "
    "ON {table}.flight_id = source.flight_id WHEN MATCHED THEN UPDATE SET arr_delay = coalesce(arr_delay, 0) + 1"
)
_DELETE: Final = f"DELETE FROM {{table}} WHERE {CHANGED}"
_SHUFFLED: Final = "INSERT OVERWRITE {table} SELECT {updated} FROM {table} ORDER BY xxhash64(flight_id, 'order')"
_TEXT: Final = "concat(sha2(concat('{0}', id), 256), ' ', sha2(concat('{0}{0}', id), 256))"
_WIDE_SHARE: Final = 4
"""Wide beds have so many times fewer rows."""


def kernel_beds(folder: Path, rows: int) -> Mapping[str, Table]:
    """The tables in ``folder``, written by Spark unless a former run left them there.

    The first snapshot of each appends one data file of ``rows`` rows, the wide ones of a quarter; its second replaces
    that file. Tables whose names begin with ``v3_`` have row lineage.
    """
    folder /= str(rows)
    done = folder / "done"
    written = done.read_text().split() if done.exists() else []
    if written != [*BEDS]:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        lab = SparkLab.start(folder, cores=1, heap="3g")
        lab.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
        lab.spark.conf.set("spark.sql.shuffle.partitions", "1")
        try:
            for name, (columns, statement) in BEDS.items():
                _write(lab, name, columns(), statement, rows // _WIDE_SHARE if columns is _wide else rows)
        finally:
            lab.stop()
        done.write_text("\n".join(BEDS))
    catalog = SqlCatalog("lab", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    return {name: catalog.load_table(f"db.{name}") for name in BEDS}


def _write(lab: SparkLab, bed: str, columns: Mapping[str, str], statement: str, rows: int) -> None:
    table = f"{lab.catalog.name}.db.{bed}"
    selected = [f"{expression} AS {column}" for column, expression in columns.items()]
    writer = lab.spark.range(0, rows, 1, 1).selectExpr(*selected).writeTo(table).using("iceberg")
    for key, value in (("format-version", "3" if bed.startswith("v3_") else "2"), ("write.distribution-mode", "none")):
        writer = writer.tableProperty(key, value)
    writer.create()
    updated = [
        f"if({CHANGED}, coalesce(arr_delay, 0) + 1, arr_delay) AS arr_delay" if column == "arr_delay" else column
        for column in columns
    ]
    lab.sql(statement.format(table=table, updated=", ".join(updated)))


def _flights() -> dict[str, str]:
    # Not in the order of the key, as in most tables: a writer that sorts by the key loses the order.
    return {**flight_columns(), "flight_id": "if(id < 0, null, xxhash64(id))"}


def _wide() -> dict[str, str]:
    return {**_few(), **{f"text_{number}": _TEXT.format(number) for number in range(3)}}


def _nested() -> dict[str, str]:
    return {
        **_few(),
        "legs": "array(cast(id as int), cast(pmod(id, 7) as int))",
        "plane": "struct(concat('N', pmod(id, 4043)) AS tailnum, pmod(id, 90) AS seats)",
        "extra": "map('a', pmod(id, 3), 'b', id)",
    }


def _few() -> dict[str, str]:
    columns = _flights()
    return {name: columns[name] for name in ("flight_id", "dep_time", "arr_delay", "carrier", "tailnum", "distance")}


BEDS: Final[Mapping[str, tuple[Callable[[], dict[str, str]], str]]] = {
    "update": (_flights, _UPDATE),
    "delete": (_flights, _DELETE),
    "merge": (_flights, _MERGE),
    "random_order": (_flights, _SHUFFLED),
    "wide_update": (_wide, _UPDATE),
    "wide_delete": (_wide, _DELETE),
    "nested_update": (_nested, _UPDATE),
    "nested_delete": (_nested, _DELETE),
    "v3_update": (_flights, _UPDATE),
    "v3_delete": (_flights, _DELETE),
    "v3_merge": (_flights, _MERGE),
}
