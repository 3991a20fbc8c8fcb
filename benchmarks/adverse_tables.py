"""Tables whose rewritten files are hard on the fast ways of a map task: each kind of rows, changed in each manner."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.random import Generator
from numpy.typing import NDArray
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

__all__ = ["CHANGES", "ROWS", "adverse_table"]

_SHARE: Final = 0.001
"""Share of the rows that change, unless the change says more."""
_TINY_FILE_ROWS: Final = 1_000
_NARROW: Final = 10
"""Kinds of rows with many or long values have so many times fewer rows."""


def adverse_table(folder: Path, kind: str, change: str, rows: int) -> Table:
    """A table that PyIceberg writes into ``folder``: it appends rows, then overwrites them all with changed ones.

    Args:
        folder: emptied first.
        kind: one of ``ROWS``.
        change: one of ``CHANGES``.
        rows: number of rows; fewer if they are long.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    catalog = SqlCatalog("lab", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("db")
    random = np.random.default_rng(0)
    before = pa.table(ROWS[kind](random, rows))
    identifier = f"db.{kind}_{change}"
    if kind == "tiny_files":
        # Only the partition column matters to the specification.
        spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="part"))
        first = Schema(NestedField(1, "part", LongType()))
        table = catalog.create_table(identifier, schema=first, partition_spec=spec)
        with table.update_schema() as update:
            update.union_by_name(before.schema)
    else:
        table = catalog.create_table(identifier, schema=before.schema)
    table.append(before)
    table.overwrite(CHANGES[change](random, before))
    return table


def _flights(random: Generator, rows: int) -> dict[str, Any]:
    return {
        "flight_id": random.permutation(rows) * 7919,
        **{f"time_{number}": random.integers(0, 2400, rows) for number in range(4)},
        **{f"delay_{number}": _nullable(random.integers(-20, 300, rows) / 1.0, random, 0.03) for number in range(2)},
        "tailnum": _texts(random, rows, 4043),
        "carrier": _texts(random, rows, 16),
    }


def _few_values(random: Generator, rows: int) -> dict[str, Any]:
    return {
        "flight_id": random.integers(0, 20, rows),
        **{f"number_{number}": random.integers(0, 10, rows) for number in range(3)},
        "text": _texts(random, rows, 10),
    }


def _repeated_rows(random: Generator, rows: int) -> dict[str, Any]:
    return {"flight_id": random.integers(0, max(rows // 3, 1), rows), "number": random.integers(0, 2, rows)}


def _tiny_files(random: Generator, rows: int) -> dict[str, Any]:
    return {"part": np.arange(rows) // _TINY_FILE_ROWS, **_flights(random, rows)}


def _wide_texts(random: Generator, rows: int) -> dict[str, Any]:
    rows //= _NARROW
    return {
        "flight_id": random.permutation(rows),
        **{f"text_{number}": [random.bytes(200).hex() for _ in range(rows)] for number in range(3)},
    }


def _nulls(random: Generator, rows: int) -> dict[str, Any]:
    return {name: _nullable(values, random, 0.95) for name, values in _flights(random, rows).items()}


def _one_column(random: Generator, rows: int) -> dict[str, Any]:
    return {"flight_id": random.permutation(rows)}


def _many_columns(random: Generator, rows: int) -> dict[str, Any]:
    rows //= _NARROW
    numbers = {f"number_{number}": random.integers(0, 10**number % 997 + 2, rows) for number in range(150)}
    return {"flight_id": random.permutation(rows), **numbers}


def _nullable(values: Any, random: Generator, share: float) -> pa.Array:
    array = pa.array(values)
    return pc.if_else(random.random(len(array)) < share, pa.scalar(None, array.type), array)


def _texts(random: Generator, rows: int, distinct: int) -> pa.Array:
    words = pa.array([f"N{number:05}" for number in range(distinct)])
    return words.take(pa.array(random.integers(0, distinct, rows)))


def _updated(random: Generator, rows: pa.Table) -> pa.Table:
    return _with_other_values(rows, random.random(len(rows)) < _SHARE)


def _deleted(random: Generator, rows: pa.Table) -> pa.Table:
    return rows.filter(random.random(len(rows)) >= _SHARE)


def _beginning_deleted(_: Generator, rows: pa.Table) -> pa.Table:
    return rows.slice(len(rows) // 3)


def _halved(random: Generator, rows: pa.Table) -> pa.Table:
    return rows.filter(random.random(len(rows)) < 0.5)


def _order_lost(random: Generator, rows: pa.Table) -> pa.Table:
    return _updated(random, rows.take(random.permutation(len(rows))))


def _all_differ(_: Generator, rows: pa.Table) -> pa.Table:
    return _with_other_values(rows, np.ones(len(rows), np.bool_))


def _with_other_values(rows: pa.Table, chosen: NDArray[np.bool_]) -> pa.Table:
    """Rows with another value in their last number, if they are chosen."""
    place = max(place for place, column in enumerate(rows.columns) if not pa.types.is_string(column.type))
    column = rows.column(place)
    other = pc.add(pc.fill_null(column, 0), pa.scalar(1, column.type))
    return rows.set_column(place, rows.field(place), pc.if_else(chosen, other, column))


ROWS: Final[Mapping[str, Callable[[Generator, int], dict[str, Any]]]] = {
    "flights": _flights,
    "few_values": _few_values,
    "repeated_rows": _repeated_rows,
    "tiny_files": _tiny_files,
    "wide_texts": _wide_texts,
    "nulls": _nulls,
    "one_column": _one_column,
    "many_columns": _many_columns,
}
CHANGES: Final[Mapping[str, Callable[[Generator, pa.Table], pa.Table]]] = {
    "updated": _updated,
    "deleted": _deleted,
    "beginning_deleted": _beginning_deleted,
    "halved": _halved,
    "order_lost": _order_lost,
    "all_differ": _all_differ,
}
