"""Equality deletes in a table that moves on: its schema, compaction, rollbacks, rewritten rows."""

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest

from spark.range_check import changes_of, check_ranges
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import weights_of
from support.spark.spark_table import SparkTable

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]
NAN = float("nan")


def delete(java: JavaWriters, columns: Sequence[str], *keys: Any, **options: Any) -> int:
    """One commit of one equality delete file; a key of one column need not be a tuple."""
    rows = [key if isinstance(key, tuple) else (key,) for key in keys]
    return java.row_delta(deletes=java.equality_deletes(columns, rows, **options))


def test_the_key_is_renamed_promoted_and_dropped_later(create_table: CreateTable) -> None:
    table = create_table("id bigint, code int, price decimal(5, 2), x float")
    java = JavaWriters(table)
    java.append(java.data_files([(n, n, Decimal(n), n / 2) for n in range(8)]))
    delete(java, ["code"], 1)
    delete(java, ["price"], Decimal(2))
    with java.schema() as schema:
        schema.renameColumn("code", "mark")
        schema.updateColumn("code", java.type("long"))
        schema.updateColumn("price", java.type("decimal(9, 2)"))
        schema.updateColumn("x", java.type("double"))
    java.append(java.data_files([(10, 2**40, Decimal("1234567.25"), 0.1), (11, 3, None, None)]))
    delete(java, ["mark"], 3, 2**40)
    delete(java, ["price"], Decimal(5))
    delete(java, ["x"], 3.0)
    check_ranges(table)


def test_rows_stay_deleted_by_a_column_that_is_dropped(create_table: CreateTable) -> None:
    """As the spec has it; Iceberg's own readers stop, unless they are asked for the dropped column too."""
    table = create_table("id bigint, code int")
    java = JavaWriters(table)
    java.append(java.data_files([(n, n * 10) for n in range(6)]))
    delete(java, ["code"], 10)
    delete(java, ["code", "id"], (20, 2), (30, 4))
    before_drop = table.snapshot_ids()[-1]
    with java.schema() as schema:
        schema.deleteColumn("code")
    java.append(java.data_files([(7,)]))
    delete(java, ["id"], 3, 7)

    def state(snapshot_id: int | None, up_to: int) -> Counter[Any]:
        rows = java.rows_at(snapshot_id, schema_of=before_drop)
        is_dropped = table.load().snapshot_by_id(up_to).schema_id != 0
        return Counter([row[:1] for row in rows.elements()]) if is_dropped else rows

    check_ranges(table, state=state)


def test_a_column_that_is_added_again_is_another_one(create_table: CreateTable) -> None:
    table = create_table("id bigint, code int")
    java = JavaWriters(table)
    java.append(java.data_files([(1, 10), (2, 20), (3, 30)]))
    first = delete(java, ["code"], 10)
    with java.schema() as schema:
        schema.deleteColumn("code")
        schema.addColumn("code", java.type("int"))
    java.append(java.data_files([(4, 10), (5, 20)]))
    last = delete(java, ["code", "id"], (20, 2), (None, 3), (10, 4))
    assert weights_of(changes_of(table, first, last)) == Counter({(3, None): -1, (5, 20): 1})
    assert weights_of(changes_of(table, None, last)) == Counter({(2, None): 1, (5, 20): 1})


def test_a_column_added_later_is_null_in_older_files(create_table: CreateTable) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    java.append(java.data_files([(1,), (2,)]))
    with java.schema() as schema:
        schema.addColumn("code", java.type("int"))
    java.append(java.data_files([(3, 5), (4, None)]))
    delete(java, ["code", "id"], (None, 1), (None, 3))
    delete(java, ["code"], None)
    check_ranges(table)


def test_a_column_added_with_a_default_has_it_in_older_files(create_table: CreateTable) -> None:
    table = create_table("id bigint", format_version=3)
    java = JavaWriters(table)
    java.append(java.data_files([(1,), (2,), (3,)]))
    with java.schema() as schema:
        schema.addColumn("code", java.type("int"), None, java.literal(7))
    java.append(java.data_files([(4, 7), (5, None), (6, 8)]))
    delete(java, ["code", "id"], (7, 1), (None, 2), (8, 3), (7, 4))
    delete(java, ["code"], None)
    delete(java, ["code"], 7)
    assert java.rows_at(table.snapshot_ids()[-1]) == Counter([(6, 8)])
    check_ranges(table)


def test_compaction_may_keep_the_sequence_number(create_table: CreateTable) -> None:
    """A concurrent compaction commits after the delete, and the delete must still reach its files."""
    table = create_table("id bigint")
    java = JavaWriters(table)
    java.append(java.data_files([(1,), (2,), (3,)]))
    delete(java, ["id"], 1)
    [live] = java.live_files()
    sequence_number = live.data_file.dataSequenceNumber()
    java.rewrite(removed=[live.data_file], added=java.data_files([(1,), (2,), (3,)]), sequence_number=sequence_number)
    delete(java, ["id"], 2)
    [live] = java.live_files()
    java.rewrite(removed=[live.data_file, *live.delete_files], added=java.data_files([(3,)]))
    delete(java, ["id"], 3)
    assert java.rows_at(table.snapshot_ids()[-1]) == Counter()
    check_ranges(table)


def test_rewritten_deletes_keep_their_sequence_number(create_table: CreateTable) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    java.append(java.data_files([(1,), (2,), (3,)]))
    delete(java, ["id"], 1)
    delete(java, ["id"], 2)
    java.append(java.data_files([(1,), (2,)]))
    old = {file.location(): file for live in java.live_files() for file in live.delete_files}.values()
    number = max(file.dataSequenceNumber() for file in old)
    java.rewrite(removed=old, added=java.equality_deletes(["id"], [(1,), (2,)]), sequence_number=number)
    assert java.rows_at(table.snapshot_ids()[-1]) == Counter([(1,), (2,), (3,)])
    delete(java, ["id"], 2)
    check_ranges(table)


def test_deletes_are_turned_into_positions(create_table: CreateTable) -> None:
    """A maintenance job that makes reading cheaper."""
    table = create_table("id bigint")
    java = JavaWriters(table)
    [file] = java.data_files([(1,), (2,), (3,)])
    java.append([file])
    delete(java, ["id"], 1, 3)
    [live] = java.live_files()
    java.rewrite(removed=live.delete_files, added=java.position_deletes({file: [0, 2]}))
    java.row_delta(rows=java.data_files([(3,)]), deletes=java.position_deletes({file: [1]}))
    check_ranges(table)


def test_deletes_that_reach_nothing_are_dropped(create_table: CreateTable) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    java.append(java.data_files([(1,), (2,)]))
    [first], [second] = java.equality_deletes(["id"], [(1,)]), java.equality_deletes(["id"], [(1,), (7,)])
    java.row_delta(deletes=[first])
    java.row_delta(deletes=[second])
    java.rewrite(removed=[second])
    java.append(java.data_files([(1,), (7,)]))
    check_ranges(table)


def test_a_rollback_undoes_them(create_table: CreateTable) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    first = java.append(java.data_files([(1,), (2,), (3,)]))
    left = delete(java, ["id"], 1, 2)
    java.manage("rollbackTo", first)
    assert weights_of(changes_of(table, left)) == Counter({(1,): 1, (2,): 1})
    delete(java, ["id"], 2, 3)
    last = table.snapshot_ids()[-1]
    found = changes_of(table, left)
    assert sorted(found["_change_ordinal"].to_pylist()) == [0, 0, 1, 1]
    assert weights_of(found) == Counter({(1,): 1, (3,): -1})
    assert java.rows_at(last) == Counter([(1,)])


def test_copy_on_write_takes_deleted_rows_out(create_table: CreateTable) -> None:
    table = create_table("id bigint, v int")
    java = JavaWriters(table)
    java.append(java.data_files([(n, 0) for n in range(6)]))
    delete(java, ["id"], 1, 2)
    table.sql("UPDATE {table} SET v = 1 WHERE id IN (3, 4)")
    delete(java, ["v"], 1)
    table.sql("DELETE FROM {table} WHERE id = 5")
    table.sql("INSERT OVERWRITE {table} SELECT id, v + 5 FROM {table}")
    check_ranges(table)
