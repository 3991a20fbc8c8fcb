"""Operations of Spark's SQL on a table: copy-on-write or merge-on-read, as the table's properties say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType

from histories.bench import pick
from histories.column_values import Seeds, named_row, value_of
from histories.java_bench import JavaBench
from histories.sql_literals import literal, quoted, values

__all__ = ["PROCEDURES", "SQL_OPERATIONS"]

Condition = Sequence[Any]
"""Column, comparison and value, each a number or a sign: ``[0, "=", 3]``; empty: every row."""

PROCEDURES: Final = {
    "data": "rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true', 'min-input-files', '1'))",
    "deletes": "rewrite_position_delete_files(table => '{table}', options => map('rewrite-all', 'true'))",
    "manifests": "rewrite_manifests(table => '{table}', use_caching => false)",
}


def insert(bench: JavaBench, rows: Sequence[Seeds]) -> None:
    """INSERT INTO."""
    schema = bench.table().schema()
    _sql(bench, f"INSERT INTO {{table}} {values(schema, [named_row(schema, row) for row in rows])}")


def insert_overwrite(bench: JavaBench, where: Condition) -> None:
    """INSERT OVERWRITE by some of the table's own rows."""
    _sql(bench, f"INSERT OVERWRITE {{table}} SELECT * FROM {{table}} WHERE {_where(bench.table().schema(), where)}")


def delete(bench: JavaBench, where: Condition) -> None:
    """DELETE FROM."""
    _sql(bench, f"DELETE FROM {{table}} WHERE {_where(bench.table().schema(), where)}")


def update(bench: JavaBench, column: int, value: int | None, where: Condition) -> None:
    """UPDATE of one column."""
    schema = bench.table().schema()
    field = pick(schema.fields, column)
    given = literal(field.field_type, value_of(field.field_type, value, required=field.required))
    _sql(bench, f"UPDATE {{table}} SET {quoted(field.name)} = {given} WHERE {_where(schema, where)}")


def merge(bench: JavaBench, column: int, rows: Sequence[Seeds], removed: Condition = ()) -> None:
    """MERGE INTO by one column, null equal to null: of the rows that match some go, others are updated."""
    schema = bench.table().schema()
    key = pick(_primitive(schema), column)
    given = [named_row(schema, row) for row in rows]
    source = values(schema, list({str(row[key]): row for row in given}.values()))
    deleted = f"WHEN MATCHED AND {_where(schema, removed, alias='t.')} THEN DELETE " if removed else ""
    _sql(
        bench,
        f"MERGE INTO {{table}} t USING ({source}) s ON t.{quoted(key)} <=> s.{quoted(key)} {deleted}"
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    )


def call(bench: JavaBench, procedure: str) -> None:
    """One of `PROCEDURES`: compaction."""
    table = bench.writers.table
    text = PROCEDURES[procedure].replace("{table}", table.identifier)
    table.lab.sql(f"CALL {table.name.split('.', maxsplit=1)[0]}.system.{text}")


SQL_OPERATIONS: Final = {
    function.__name__: function for function in (insert, insert_overwrite, delete, update, merge, call)
}


def _sql(bench: JavaBench, statement: str) -> None:
    bench.writers.table.sql(statement)


def _where(schema: Schema, where: Condition, *, alias: str = "") -> str:
    if not where:
        return "true"
    column, comparison, seed = where
    name = pick(_primitive(schema), column)
    if seed is None:
        return f"{alias}{quoted(name)} IS NULL"
    kind = schema.find_type(name)
    return f"{alias}{quoted(name)} {comparison} {literal(kind, value_of(kind, seed))}"


def _primitive(schema: Schema) -> list[str]:
    return [field.name for field in schema.fields if isinstance(field.field_type, PrimitiveType)]
