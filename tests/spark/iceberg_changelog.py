"""Changes as Iceberg's own changelog tests write them down: type, ordinal, snapshot id, then the row."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from icefloe.api import read_changes
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import Row, typed_changes_of
from support.spark.spark_table import SparkTable

__all__ = ["agreed", "changes_of", "committed_ms", "counted", "insert", "overwrite_partitions", "view_of"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS: Final = ("_change_type", "_change_ordinal", "_commit_snapshot_id")


def agreed(
    table: SparkTable,
    after: int | None = None,
    up_to: int | None = None,
    *,
    identifier_columns: Sequence[str] = (),
    net: bool = False,
    **times: int,
) -> Counter[Row]:
    """The changes of a range, which icefloe and Iceberg's changelog view must tell alike."""
    options: dict[str, Any] = {"identifier_columns": identifier_columns or None, "changes": "net" if net else "each"}
    found = changes_of(table, after, up_to, **times, **options)
    assert found == view_of(table, after, up_to, identifier_columns=identifier_columns, net=net, **times)
    return found


def changes_of(
    table: SparkTable,
    after: int | None = None,
    up_to: int | None = None,
    *,
    after_ms: int | None = None,
    up_to_ms: int | None = None,
    **options: Any,
) -> Counter[Row]:
    """The changes of a range as `read_changes` tells them; times in milliseconds since 1970."""
    return counted(
        read_changes(
            table.load(),
            after_snapshot_id=after,
            up_to_snapshot_id=up_to,
            after_timestamp=_time(after_ms),
            up_to_timestamp=_time(up_to_ms),
            **options,
        ).read_all()
    )


def view_of(
    table: SparkTable,
    after: int | None = None,
    up_to: int | None = None,
    *,
    after_ms: int | None = None,
    up_to_ms: int | None = None,
    identifier_columns: Sequence[str] = (),
    net: bool = False,
) -> Counter[Row]:
    """The changes of the same range as Iceberg's ``create_changelog_view`` tells them."""
    times = {"start-timestamp": after_ms, "end-timestamp": up_to_ms}
    return counted(
        table.changelog(
            after_snapshot_id=after, up_to_snapshot_id=up_to, identifier_columns=identifier_columns, net=net,
            options={name: value for name, value in times.items() if value is not None},
        )
    )  # fmt: skip


def counted(changes: pa.Table) -> Counter[Row]:
    """The count of each change."""
    return typed_changes_of(changes, columns=_COLUMNS)


def committed_ms(table: SparkTable) -> list[int]:
    """When each snapshot of the lineage was committed, oldest first, in milliseconds since 1970."""
    metadata = table.load().metadata
    return [metadata.snapshot_by_id(snapshot_id).timestamp_ms for snapshot_id in table.snapshot_ids()]


def insert(table: SparkTable, *rows: tuple[object, ...]) -> int:
    """Append the rows by Iceberg's Java writers, which takes far less time than a Spark job; the snapshot's id."""
    java = JavaWriters(table)
    return java.append(java.data_files(rows))


def overwrite_partitions(table: SparkTable, *rows: tuple[object, ...]) -> int:
    """Replace the partitions that the rows fall into, as INSERT OVERWRITE does in dynamic mode; the snapshot's id."""
    java = JavaWriters(table)
    update = java.java.newReplacePartitions()
    for file in java.data_files(rows):
        update.addFile(file)
    update.commit()
    return table.snapshot_ids()[-1]


def _time(timestamp_ms: int | None) -> datetime | None:
    return None if timestamp_ms is None else _EPOCH + timedelta(milliseconds=timestamp_ms)
