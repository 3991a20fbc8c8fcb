"""Commits of Flink's Iceberg sink and Kafka Connect for a stream of upserts, written by the same Java writers.

As `BaseDeltaTaskWriter` of both does: a key of an earlier commit is deleted by equality, a key that the same task wrote
in the same commit by position (on V3 tables by a deletion vector).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from support.spark.java_writers import JavaWriters

__all__ = ["UpsertTask", "commit"]


class UpsertTask:
    """One task's part of one commit: one data file, what it deletes by key, what it deletes of its own rows."""

    def __init__(
        self, java: JavaWriters, key: Sequence[str], *, partition_of: Any = None, whole_rows: bool = False
    ) -> None:
        """An empty part.

        Args:
            java: the table's.
            key: the equality columns; the first ones of the table.
            partition_of: a data file of the partition, if the table has partitions; all rows must be of it.
            whole_rows: write the whole row into equality delete files, as Flink does without upsert mode.
        """
        self._java, self._key, self._partition_of, self._whole_rows = java, key, partition_of, whole_rows
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
        return self._java.equality_deletes(
            self._key, self._deleted, partition_of=self._partition_of, written_columns=written
        )

    def _key_of(self, row: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(row[: len(self._key)])


def commit(java: JavaWriters, *tasks: UpsertTask) -> int:
    """One checkpoint: what all tasks wrote."""
    parts = [task.files() for task in tasks]
    rows = [file for files, _ in parts for file in files]
    deletes = [file for _, files in parts for file in files]
    return java.row_delta(rows=rows, deletes=deletes) if deletes else java.append(rows)
