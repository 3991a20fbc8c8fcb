"""Tables as streaming writers leave them: equality deletes, position deletes and inserts of one key in one commit."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from spark.range_check import changes_of, check_ranges
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import typed_changes_of
from support.spark.spark_table import SparkTable

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]


class UpsertTask:
    """One task's part of one commit: one data file, what it deletes by key, what it deletes of its own rows."""

    def __init__(self, java: JavaWriters, key: Sequence[str], *, whole_rows: bool = False) -> None:
        """An empty part.

        Args:
            java: the table's.
            key: the equality columns; the first ones of the table.
            whole_rows: write the whole row into equality delete files, as Flink does without upsert mode.
        """
        self._java, self._key, self._whole_rows = java, key, whole_rows
        self._rows: list[Sequence[Any]] = []
        self._positions: dict[tuple[Any, ...], int] = {}
        self._deleted_positions: list[int] = []
        self._deleted: list[Sequence[Any]] = []

    def upsert(self, *row: Any) -> None:
        """A row that replaces what has its key."""
        self.delete(*row)
        self.insert(*row)

    def insert(self, *row: Any) -> None:
        """A row whose key nothing has."""
        self._positions[self._key_of(row)] = len(self._rows)
        self._rows.append(row)

    def delete(self, *row: Any) -> None:
        """A deleted row; without ``whole_rows`` its key is enough."""
        position = self._positions.pop(self._key_of(row), None)
        if position is None:
            self._deleted.append(row if self._whole_rows else self._key_of(row))
        else:
            self._deleted_positions.append(position)

    def files(self) -> tuple[list[Any], list[Any]]:
        """The data files and the delete files."""
        rows = self._java.data_files(self._rows) if self._rows else []
        deletes = list(self._equality_deletes())
        if self._deleted_positions:
            positions = dict.fromkeys(rows, self._deleted_positions)
            is_v3 = self._java.table.load().format_version == 3
            vectors = self._java.deletion_vectors(positions).added if is_v3 else self._java.position_deletes(positions)
            deletes.extend(vectors)
        return rows, deletes

    def _equality_deletes(self) -> Iterable[Any]:
        if not self._deleted:
            return []
        columns = [field.name for field in self._java.table.load().schema().fields]
        written = columns if self._whole_rows else ()
        return self._java.equality_deletes(self._key, self._deleted, written_columns=written)

    def _key_of(self, row: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(row[: len(self._key)])


def commit(java: JavaWriters, *tasks: UpsertTask) -> int:
    """One checkpoint: what all tasks wrote."""
    parts = [task.files() for task in tasks]
    rows = [file for files, _ in parts for file in files]
    deletes = [file for _, files in parts for file in files]
    return java.row_delta(rows=rows, deletes=deletes) if deletes else java.append(rows)


VERSIONS = pytest.mark.parametrize("format_version", [2, 3])


def typed(table: SparkTable, after: int, up_to: int) -> Counter[Any]:
    return typed_changes_of(changes_of(table, after, up_to), columns=["_change_type"])


@VERSIONS
def test_a_key_written_again_and_again_in_one_checkpoint_is_one_change(
    create_table: CreateTable, format_version: int
) -> None:
    table = create_table("id bigint NOT NULL, v string", format_version=format_version, identifier_fields=["id"])
    java = JavaWriters(table)
    task = UpsertTask(java, ["id"])
    for row in ((1, "a"), (2, "a"), (1, "b"), (3, "a"), (4, "a"), (1, "c")):
        task.upsert(*row)
    task.delete(4)
    first = commit(java, task)
    assert table.rows_at(first) == Counter([(1, "c"), (2, "a"), (3, "a")])
    task = UpsertTask(java, ["id"])
    for row in ((1, "d"), (5, "a"), (2, "a")):
        task.upsert(*row)
    task.delete(3)
    task.upsert(3, "back")
    task.delete(5)
    task.delete(1)
    task.upsert(6, "new")
    second = commit(java, task)
    assert typed(table, first, second) == Counter(
        [("DELETE", 1, "c"), ("UPDATE_BEFORE", 3, "a"), ("UPDATE_AFTER", 3, "back"), ("INSERT", 6, "new")]
    )
    check_ranges(table)


@VERSIONS
def test_without_upsert_mode_delete_files_hold_whole_rows(create_table: CreateTable, format_version: int) -> None:
    """Only the equality columns count: the others of a deleted row may be out of date."""
    table = create_table("id bigint NOT NULL, v string, w int", format_version=format_version)
    java = JavaWriters(table)
    task = UpsertTask(java, ["id"], whole_rows=True)
    for row in ((1, "a", 1), (2, "b", None), (3, None, 3)):
        task.insert(*row)
    commit(java, task)
    task = UpsertTask(java, ["id"], whole_rows=True)
    task.delete(1, "a", 1)
    task.insert(1, "A", 1)
    task.delete(1, "A", 1)
    task.insert(1, "AA", 1)
    task.delete(2, "stale", 7)
    last = commit(java, task)
    assert table.rows_at(last) == Counter([(1, "AA", 1), (3, None, 3)])
    check_ranges(table)
