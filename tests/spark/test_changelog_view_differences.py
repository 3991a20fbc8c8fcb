"""Differences to ``create_changelog_view`` that are on purpose: both results for the same table.

Each test is one entry of "Where icefloe differs from create_changelog_view" in docs/cases.md; the other entries
stand where Iceberg's own tests have the case (test_iceberg_changelog_table.py, _view.py, _scan.py).
"""

from collections import Counter

import pyarrow as pa
import pytest

from icefloe.api import read_changes
from icefloe.iceberg.history.history import ExpiredHistoryError
from spark.iceberg_changelog import agreed, changes_of, counted, view_of
from support.spark.java_writers import JavaWriters
from support.spark.spark_table import CreateTable

pytestmark = [pytest.mark.spark, pytest.mark.extended]


def test_binary_values_are_compared_by_content(create_table: CreateTable) -> None:
    table = create_table("id int, payload binary")
    table.sql("INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, X'0A'), (2, X'0B') AS t(id, payload)")
    table.sql("UPDATE {table} SET payload = X'0C' WHERE id = 2")
    before, after = table.snapshot_ids()
    updated = Counter([("DELETE", 0, after, 2, b"\x0b"), ("INSERT", 0, after, 2, b"\x0c")])
    assert changes_of(table, before) == updated
    # apache/iceberg issue 18211: no binary value equals another there, so rows that were carried over appear.
    leaked = Counter([("DELETE", 0, after, 1, b"\x0a"), ("INSERT", 0, after, 1, b"\x0a")])
    assert view_of(table, before) == updated + leaked


def test_a_zero_that_changed_its_sign_is_no_change(create_table: CreateTable) -> None:
    table = create_table("id int, x double")
    table.sql("INSERT INTO {table} VALUES (1, double('-0.0')), (2, double('NaN'))")
    table.sql("UPDATE {table} SET x = abs(x)")
    first = table.snapshot_ids()[0]
    assert changes_of(table, first) == Counter()
    assert {change[0] for change in view_of(table, first)} == {"DELETE", "INSERT"}


def test_duplicates_of_an_identity_are_paired_as_far_as_they_go(create_table: CreateTable) -> None:
    table = create_table("id int, data string")
    java = JavaWriters(table)
    old = java.data_files([(1, "a"), (1, "a"), (2, "b")])
    first = java.append(old)
    last = java.overwrite(removed=old, added=java.data_files([(1, "x"), (1, "x"), (2, "y"), (2, "z")]))
    found = changes_of(table, first, identifier_columns=["id"])
    # Which insert of id 2 is the update, the hashes of the rows decide.
    twice = {("UPDATE_BEFORE", 0, last, 1, "a"): 2, ("UPDATE_AFTER", 0, last, 1, "x"): 2}
    assert Counter({change: count for change, count in found.items() if change[3] == 1}) == twice
    assert sorted(str(change[0]) for change in found if change[3] == 2) == ["INSERT", "UPDATE_AFTER", "UPDATE_BEFORE"]
    with pytest.raises(Exception, match="multiple rows with the same identifier fields"):
        view_of(table, first, identifier_columns=["id"])


def test_the_snapshots_of_one_commit_are_one_step(create_table: CreateTable) -> None:
    table = create_table("id int, data string")
    loaded = table.load()
    loaded.append(_rows((1, "a"), (2, "b")))
    loaded.upsert(_rows((2, "c"), (3, "d")), join_cols=["id"])
    first, *_, last = snapshot_ids = table.snapshot_ids()
    assert len(snapshot_ids) == 4
    assert changes_of(table, first, identifier_columns=["id"]) == Counter(
        [("UPDATE_BEFORE", 0, last, 2, "b"), ("UPDATE_AFTER", 0, last, 2, "c"), ("INSERT", 0, last, 3, "d")]
    )
    split = changes_of(table, first, identifier_columns=["id"], commit_groups="split")
    assert split == view_of(table, first, identifier_columns=["id"])
    assert {change[:2] for change in split} == {("DELETE", 0), ("INSERT", 1), ("INSERT", 2)}


def test_the_schema_is_that_of_the_end_of_the_range(create_table: CreateTable) -> None:
    table = create_table("id int, old string, gone string")
    table.sql("INSERT INTO {table} VALUES (1, 'a', 'x')")
    table.sql("INSERT INTO {table} VALUES (2, 'b', 'y')")
    first, second = table.snapshot_ids()
    table.sql("ALTER TABLE {table} RENAME COLUMN old TO new")
    table.sql("ALTER TABLE {table} DROP COLUMN gone")
    table.sql("INSERT INTO {table} VALUES (3, 'c')")
    assert read_changes(table.load(), first, second).schema.names[4:] == ["id", "old", "gone"]
    assert changes_of(table, first, second) == Counter([("INSERT", 0, second, 2, "b", "y")])
    assert view_of(table, first, second) == Counter([("INSERT", 0, second, 2, "b")])
    assert agreed(table, first) == Counter(
        [("INSERT", 0, second, 2, "b"), ("INSERT", 1, table.snapshot_ids()[-1], 3, "c")]
    )


def test_a_range_of_nothing_has_no_rows(create_table: CreateTable) -> None:
    table = create_table("id int")
    table.sql("INSERT INTO {table} VALUES (1)")
    [only] = table.snapshot_ids()
    assert changes_of(table, only, only) == Counter()
    with pytest.raises(Exception, match=f"{only} is not a parent ancestor of end snapshot {only}"):
        view_of(table, only, only)


def test_expired_history_is_no_beginning(create_table: CreateTable) -> None:
    table = create_table("id int")
    java = JavaWriters(table)
    expired, kept, last = (java.append(java.data_files([(number,)])) for number in (1, 2, 3))
    java.expire(expired)
    with pytest.raises(ExpiredHistoryError, match=str(kept)):
        changes_of(table)
    # The view begins with the oldest snapshot that is left, and row 1 is never told.
    assert view_of(table) == Counter([("INSERT", 0, kept, 2), ("INSERT", 1, last, 3)])


def test_a_branch_has_changes_of_its_own(create_table: CreateTable) -> None:
    table = create_table("id int")
    java = JavaWriters(table)
    first = java.append(java.data_files([(1,)]))
    java.manage("createBranch", "audit", first)
    on_branch = java.append(java.data_files([(2,)]), branch="audit")
    on_main = java.append(java.data_files([(3,)]))
    inserted = Counter([("INSERT", 0, on_branch, 2)])
    assert changes_of(table, first, branch="audit") == view_of(table, first, on_branch) == inserted
    # The view passes over an option ``branch``: it reads main.
    assert counted(table.changelog(after_snapshot_id=first, options={"branch": "audit"})) == Counter(
        [("INSERT", 0, on_main, 3)]
    )


def test_the_row_ids_of_a_v3_table_pair_updates(create_table: CreateTable) -> None:
    table = create_table("id int, data string", format_version=3)
    table.sql("INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (1, 'a'), (2, 'b') AS t(id, data)")
    table.sql("UPDATE {table} SET id = 3, data = 'c' WHERE id = 2")
    before, after = table.snapshot_ids()
    assert changes_of(table, before) == Counter(
        [("UPDATE_BEFORE", 0, after, 2, "b"), ("UPDATE_AFTER", 0, after, 3, "c")]
    )
    assert view_of(table, before) == Counter([("DELETE", 0, after, 2, "b"), ("INSERT", 0, after, 3, "c")])


def _rows(*rows: tuple[int, str]) -> pa.Table:
    ids, data = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int32()), "data": pa.array(data)})
