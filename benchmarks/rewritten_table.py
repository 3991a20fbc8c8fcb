"""The benchmark's table: 2 million rows of 19 columns in one file, which Spark rewrote to update one column of 1 %."""

import shutil
from pathlib import Path
from typing import Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from support.spark.spark_lab import SparkLab

__all__ = ["ROWS", "flight_columns", "rewritten_table"]

ROWS: Final = 2_000_000
IDENTIFIER: Final = "db.rewritten"


def rewritten_table(folder: Path) -> Table:
    """The table in ``folder``, written by Spark unless a former run left it there.

    Its first snapshot appends one data file, its second replaces that file: ``arr_delay`` differs in scattered rows.
    """
    done = folder / "done"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _write(folder)
        done.touch()
    properties = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    return SqlCatalog("lab", **properties).load_table(IDENTIFIER)


def _write(folder: Path) -> None:
    lab = SparkLab.start(folder, cores=1, heap="2g")
    try:
        name = f"{lab.catalog.name}.{IDENTIFIER}"
        columns = [f"{expression} AS {column}" for column, expression in flight_columns().items()]
        rows = lab.spark.range(0, ROWS, 1, 1).selectExpr(*columns).writeTo(name).using("iceberg")
        rows.tableProperty("format-version", "2").tableProperty("write.distribution-mode", "none").create()
        scattered = "pmod(xxhash64(flight_id, 'chosen'), 100) = 0"
        lab.sql(f"UPDATE {name} SET arr_delay = coalesce(arr_delay, 0) + 1 WHERE {scattered}")
    finally:
        lab.stop()


def flight_columns() -> dict[str, str]:
    """The columns of the flights data set with about its widths, cardinalities and nulls."""
    return {
        # Nullable for Spark, so that both files hold it as an optional column and its chunks come out equal.
        "flight_id": "if(id < 0, null, id)",
        "month": f"cast(1 + id * 12 div {ROWS} as int)",
        "day": f"cast(1 + {_drawn('day', 28)} as int)",
        "dep_time": f"if({_drawn('cancelled', 40)} = 0, null, cast(500 + {_drawn('dep_time', 1900)} as int))",
        "sched_dep_time": f"cast(500 + {_drawn('sched_dep_time', 1900)} as int)",
        "dep_delay": f"if({_drawn('cancelled', 40)} = 0, null, cast({_drawn('dep_delay', 300)} - 20 as double))",
        "arr_time": f"if({_drawn('cancelled', 40)} = 0, null, cast({_drawn('arr_time', 2400)} as int))",
        "sched_arr_time": f"cast({_drawn('sched_arr_time', 2400)} as int)",
        "arr_delay": f"if({_drawn('diverted', 35)} = 0, null, cast({_drawn('arr_delay', 320)} - 40 as double))",
        "carrier": f"substr('UAB6EVDLAAMQUS9EWNVXFLASF9YVHAOO', cast(1 + 2 * {_drawn('carrier', 16)} as int), 2)",
        "flight": f"cast(1 + {_drawn('flight', 8500)} as int)",
        "tailnum": f"concat('N', lpad(cast({_drawn('tailnum', 4043)} as string), 5, '0'))",
        "origin": f"substr('EWRLGAJFK', cast(1 + 3 * {_drawn('origin', 3)} as int), 3)",
        "dest": f"concat('D', lpad(cast({_drawn('dest', 105)} as string), 2, '0'))",
        "air_time": f"if({_drawn('diverted', 35)} = 0, null, cast(20 + {_drawn('air_time', 660)} as double))",
        "distance": f"cast(80 + {_drawn('distance', 4900)} as int)",
        "hour": f"cast(5 + {_drawn('hour', 19)} as int)",
        "minute": f"cast({_drawn('minute', 60)} as int)",
        "time_hour": f"timestamp_seconds(1356998400 + 3600 * (id * 8760 div {ROWS}))",
    }


def _drawn(column: str, bound: int) -> str:
    """A number below ``bound`` that follows from the row and the column's name: scattered, the same in every run."""
    return f"pmod(xxhash64(id, '{column}'), {bound})"
