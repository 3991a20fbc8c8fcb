"""Identities of every kind: which deletes and inserts of a step are one update, against the states that Iceberg reads.

`test_row_ids` has the row ids of V3 tables.
"""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from spark.range_check import changes_of, check_range, last_changes, types_of
from support.spark.java_writers import JavaWriters
from support.spark.spark_table import CreateTable

pytestmark = pytest.mark.spark

NAN = float("nan")
KEYS: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False, True),
    "int": (0, -(2**31), 2**31 - 1),
    "long": (0, -(2**63), 2**63 - 1),
    "float": (0.0, NAN, float("-inf")),
    "double": (-0.0, NAN, 1e300),
    "decimal(38, 10)": (Decimal("0"), Decimal("-1.5"), Decimal("9" * 28 + "." + "9" * 10)),
    "date": (date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)),
    "time": (time(0), time(12), time(23, 59, 59, 999999)),
    "timestamp": (datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2261, 1, 1)),
    "timestamptz": tuple(datetime(year, 6, 1, tzinfo=UTC) for year in (1970, 1900, 2200)),
    "string": ("", "a", "\U0001f600" * 9),
    "uuid": (UUID(int=0), UUID(int=7), UUID(int=2**128 - 1)),
    "fixed[3]": (b"\0\0\0", b"abc", b"\xff\0\xff"),
    "binary": (b"", b"\0", b"\xff" * 20),
}


def test_keys_of_every_type_with_duplicates_and_nulls(create_table: CreateTable) -> None:
    """Rewritten files and deletes by position; -0.0 is 0.0, and NaN and null are keys like others."""
    table = create_table("v int, w int")
    java = JavaWriters(table)
    names = {kind: f"k{number}" for number, kind in enumerate(KEYS)}
    with java.schema() as schema:
        for kind, name in names.items():
            schema.addColumn(name, java.type(kind))

    def files(*rows: tuple[int, int, int | None]) -> list[Any]:
        """One file; the third value says which key of each type a row has, or negative zero."""
        return java.data_files(
            {"v": v, "w": w, **{names[kind]: key(kind, number) for kind in KEYS}} for v, w, number in rows
        )

    [old] = files((0, 0, 0), (1, 0, 0), (0, 0, 1), (0, 0, None), (1, 0, None), (2, 0, 2))
    [stays] = files((0, 0, 0), (0, 0, None), (8, 0, 1))
    java.append([old, stays])
    [new] = files((0, 0, -1), (5, 0, 0), (0, 1, 1), (0, 0, None), (6, 0, None), (7, 0, None))
    java.overwrite(removed=[old], added=[new])
    changed = files((9, 9, 0), (9, 9, 1), (9, 9, None), (9, 9, None))
    java.row_delta(rows=changed, deletes=java.position_deletes({new: [0, 2, 3], stays: [1, 2]}))
    ends = [None, *table.snapshot_ids()]
    states = {snapshot_id: java.rows_at(snapshot_id) for snapshot_id in ends}
    for name in names.values():
        found = changes_of(table, identifier_columns=[name])
        check_range(found, states, ends, [name])
        assert types_of(found)["UPDATE_AFTER"] >= 5, name


def key(kind: str, number: int | None) -> Any:
    if number == -1:
        return -0.0 if kind in ("float", "double") else KEYS[kind][0]
    return None if number is None else KEYS[kind][number]


@pytest.mark.parametrize("kind", ["uuid", "double"])
def test_keys_inside_structs(create_table: CreateTable, kind: str) -> None:
    table = create_table("v int", format_version=3)
    java = JavaWriters(table)
    iceberg = table.lab.spark._jvm.org.apache.iceberg.types.Types
    nested = iceberg.NestedField.optional(100, "k", java.type(kind))
    fields = table.lab.spark.sparkContext._gateway.new_array(iceberg.NestedField, 1)
    fields[0] = nested
    with java.schema() as schema:
        schema.addColumn("s", iceberg.StructType.of(fields))
    first, second, third = KEYS[kind]
    [old] = java.data_files([(0, {"k": first}), (0, {"k": second}), (0, {"k": None}), (0, None), (1, {"k": third})])
    java.append([old])
    [new] = java.data_files([(1, {"k": first}), (0, {"k": second}), (3, {"k": None}), (1, {"k": third}), (4, None)])
    java.overwrite(removed=[old], added=[new])
    found = last_changes(table, identifier_columns=["s.k"])
    # A null struct has a null key, as a struct with a null has.
    assert types_of(found) == {"UPDATE_BEFORE": 3, "UPDATE_AFTER": 3}
    assert types_of(last_changes(table, identifier_columns=["s.k"], columns=["v"])) == types_of(found)
    assert types_of(last_changes(table, identifier_columns=["s.k", "v"])) == {"DELETE": 3, "INSERT": 3}
