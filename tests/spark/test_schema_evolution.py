"""Schemas that change inside a range, against Iceberg's own reading of every state in the range's last schema."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark.range_check import changes_of, check_evolving_ranges
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import weights_of
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = pytest.mark.spark

EVERY_MODE = pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])


def literal(java: JavaWriters, value: Any, kind: str) -> Any:
    """Java's literal of a type; dates, times, uuids and decimals are text."""
    expressions, buffers = java._iceberg.expressions.Expressions, java._rows.jvm.java.nio.ByteBuffer
    return expressions.lit(buffers.wrap(value) if isinstance(value, bytes) else value).to(java.type(kind))


def alter(table: SparkTable, *clauses: str) -> None:
    for clause in clauses:
        table.sql(f"ALTER TABLE {{table}} {clause}")


NESTED = (
    "id int, s struct<a: int, b: string, f: float>, l array<struct<k: int, v: string>>, "
    "m map<string, struct<x: float, y: decimal(5,1)>>"
)
NESTED_ROWS = """
    SELECT id,
        if(id % 3 = 0, null, named_struct('a', if(id % 2 = 0, null, id), 'b', concat('b', id), 'f', id + 0.25f)),
        CASE id % 4 WHEN 0 THEN null WHEN 1 THEN array() ELSE array(named_struct('k', id, 'v', null), null) END,
        CASE id % 5 WHEN 0 THEN null WHEN 1 THEN map()
            ELSE map('x', named_struct('x', id + 0.5f, 'y', id + 0.5), 'z', null) END
    FROM (SELECT cast(id AS int) AS id FROM range(24))
"""


@EVERY_MODE
def test_fields_inside_structs_lists_and_maps(create_table: CreateTable, mode: str) -> None:
    table = create_table(NESTED, mode=mode)
    table.sql(f"INSERT INTO {{table}} {NESTED_ROWS}")
    alter(table, "ALTER COLUMN s.a TYPE bigint", "ALTER COLUMN l.element.k TYPE bigint")
    alter(table, "ALTER COLUMN m.value.x TYPE double", "ALTER COLUMN m.value.y TYPE decimal(18,1)")
    table.sql("UPDATE {table} SET s = named_struct('a', 5000000000, 'b', 'big', 'f', 1.5) WHERE id = 8")
    alter(table, "ADD COLUMN s.c struct<z: int>", "DROP COLUMN s.b", "RENAME COLUMN s.f TO g")
    alter(table, "ADD COLUMN l.element.w double", "DROP COLUMN m.value.y", "ADD COLUMN m.value.q int")
    table.sql("UPDATE {table} SET s.c = named_struct('z', 1) WHERE id IN (10, 11)")
    table.sql("DELETE FROM {table} WHERE size(l) = 2 AND id < 8")
    alter(table, "ADD COLUMN s.b int FIRST", "ALTER COLUMN l.element.w FIRST", "ALTER COLUMN s FIRST")
    table.sql("UPDATE {table} SET s.b = 5 WHERE s.c.z = 1")
    table.sql("UPDATE {table} SET m = map('z', null, 'x', named_struct('x', 0, 'q', null)) WHERE id = 12")
    check_evolving_ranges(table)


def test_rows_with_nulls_are_delivered_after_a_rollback_to_a_required_column(create_table: CreateTable) -> None:
    table = create_table("id int NOT NULL, x string NOT NULL, s struct<a: int NOT NULL>", mode="merge-on-read")
    table.sql("INSERT INTO {table} VALUES (1, 'a', named_struct('a', 1))")
    alter(table, "ALTER COLUMN x DROP NOT NULL", "ALTER COLUMN s.a DROP NOT NULL")
    table.sql("INSERT INTO {table} VALUES (2, null, named_struct('a', null)), (3, 'c', null)")
    first, last = table.snapshot_ids()
    alter(table, "ADD COLUMN later int")
    table.sql(f"CALL lab.system.rollback_to_snapshot('{table.identifier}', {first})")
    found = changes_of(table, last)
    nulls = {field.name: field.nullable for field in found.schema}
    assert (nulls["id"], nulls["x"]) == (False, True)
    assert weights_of(found) == {(2, None, (("a", None),)): -1, (3, "c", None): -1}


def test_values_of_a_wider_type_are_delivered_after_a_rollback_to_the_narrower_one(create_table: CreateTable) -> None:
    table = create_table("id int, f float, d decimal(9,2), s struct<a: int>", mode="merge-on-read")
    table.sql("INSERT INTO {table} VALUES (1, 0.5f, 1.25, named_struct('a', 1))")
    alter(table, "ALTER COLUMN id TYPE bigint", "ALTER COLUMN f TYPE double", "ALTER COLUMN d TYPE decimal(20,2)")
    alter(table, "ALTER COLUMN s.a TYPE bigint", "RENAME COLUMN d TO e", "ADD COLUMN new int")
    table.sql("INSERT INTO {table} VALUES (5000000000, 0.1d, 12345678901.25, named_struct('a', 6000000000), 5)")
    table.sql("INSERT INTO {table} VALUES (2, 0.25d, 2.25, null, null)")
    first, _, last = table.snapshot_ids()
    table.sql(f"CALL lab.system.rollback_to_snapshot('{table.identifier}', {first})")
    found = changes_of(table, last)
    assert found.column_names[4:] == ["id", "f", "d", "s"]
    rows = {
        (5_000_000_000, 0.1, Decimal("12345678901.25"), (("a", 6_000_000_000),)): -1,
        (2, 0.25, Decimal("2.25"), None): -1,
    }
    assert weights_of(found) == rows
    table.sql("INSERT INTO {table} (id, f, e) VALUES (3, 0.5f, 3.25)")
    # A rollback leaves the table's own schema as it is, and the next commit has that.
    assert changes_of(table, last).column_names[4:] == ["id", "f", "e", "s", "new"]
    assert changes_of(table, None, first).schema.field("id").type == pa.int32()


# In Parquet: Iceberg's own readers refuse default values of columns that an ORC file lacks.
@EVERY_MODE
def test_initial_defaults_of_columns_added_later(create_table: CreateTable, mode: str) -> None:
    table = create_table(
        "id int, s struct<a: int>, l array<struct<k: int>>, m map<string, struct<k: int>>",
        format_version=3, mode=mode,
    )  # fmt: skip
    table.sql(
        "INSERT INTO {table} SELECT cast(id AS int), if(id % 3 = 0, null, named_struct('a', cast(id AS int))), "
        "if(id % 2 = 0, array(named_struct('k', 1), null), null), "
        "if(id % 2 = 1, map('x', named_struct('k', 1), 'y', null), null) FROM range(12)"
    )
    java = JavaWriters(table)
    with java.schema() as update:
        for name, kind, value in DEFAULTS:
            update.addColumn(name, java.type(kind), literal(java, value, kind))
        update.addColumn("s", "n", java.type("int"), literal(java, 3, "int"))
        update.addColumn("l", "n", java.type("string"), literal(java, "e", "string"))
        update.addColumn("m", "n", java.type("double"), literal(java, 0.1, "double"))
        update.allowIncompatibleChanges().addRequiredColumn("req", java.type("long"), literal(java, 9, "long"))
    java.append(java.data_files([{"id": 100, "req": 3}, {"id": 3, "req": 9, "an_int": 7}]))
    table.sql("UPDATE {table} SET an_int = 8 WHERE id IN (2, 100)")
    with java.schema() as update:
        update.updateColumnDefault("an_int", literal(java, -1, "int"))
    table.sql("UPDATE {table} SET s.n = 4 WHERE id = 8")
    check_evolving_ranges(table, identifier_columns=["id"])


DEFAULTS: Sequence[tuple[str, str, Any]] = (
    ("a_boolean", "boolean", True),
    ("an_int", "int", 7),
    ("a_long", "long", 2**40),
    ("a_float", "float", 0.1),
    ("a_double", "double", 0.1),
    ("a_string", "string", "grüße"),
    ("a_date", "date", "1960-02-29"),
    ("a_timestamp", "timestamp", "1960-01-01T00:00:00.123456"),
    ("a_timestamptz", "timestamptz", "2024-01-01T00:00:00.123456+00:00"),
    ("a_uuid", "uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ("a_decimal", "decimal(9, 2)", "1.25"),
    ("a_wide_decimal", "decimal(38, 2)", "123456789012345678901234567890.25"),
    ("a_binary", "binary", b"\x00\xff"),
    ("a_fixed", "fixed[2]", b"\x01\x02"),
)
