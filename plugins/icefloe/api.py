"""The changes of a table, and its changed partitions, in Python: no Airflow, no Spark."""

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa

from icefloe.batch.changelog_scan import ChangelogScan
from icefloe.engines.local import LocalEngine
from icefloe.iceberg.scan.scan_tasks import ScanPlan
from icefloe.iceberg.table import Table
from icefloe.pipeline.settings import ChangesOption, CommitGroupsOption

__all__ = ["read_changed_partitions", "read_changes"]


def read_changes(
    table: Table,
    after_snapshot_id: int | None = None,
    up_to_snapshot_id: int | None = None,
    *,
    after_timestamp: datetime | None = None,
    up_to_timestamp: datetime | None = None,
    identifier_columns: Sequence[str] | None = None,
    changes: ChangesOption = "each",
    commit_groups: CommitGroupsOption = "fuse",
    columns: Sequence[str] | None = None,
    filter: str | None = None,  # noqa: A002 - the name is the interface's
    branch: str = "main",
    from_snapshot_id_exclusive: int | None = None,
    to_snapshot_id_inclusive: int | None = None,
) -> pa.RecordBatchReader:
    """The row-level changes of a range of a table's snapshots.

    The range is planned when this is called; data files are read while the reader is. Each core works on one task,
    which takes at most 1 GiB; rows that changed pass through a temporary folder.

    Args:
        table: its metadata counts as it was loaded. Its files are read by its own ``io``, which PyIceberg makes from
            the table's properties too: load only tables of writers whom you trust.
        after_snapshot_id: exclusive; None: from the start of the table's history.
        up_to_snapshot_id: inclusive; None: the head of the branch.
        after_timestamp: instead of the id: the snapshot that was current then; needs an offset.
        up_to_timestamp: the same for the end of the range.
        identifier_columns: columns that make two rows the same row; None: the table's identifier fields or, if it has
            none, the row ids of V3 tables. Without any of these, changes are INSERT and DELETE only.
        changes: ``each`` step by itself, or ``net``: the last state of each identity against its first.
        commit_groups: ``fuse`` the snapshots of one commit into one step, or ``split``: a step for each snapshot.
        columns: columns to deliver, in the table's order; None: all. A change in other columns is no change.
        filter: an Iceberg expression in the names of the last schema, such as ``"status = 'open' and amount > 10"``. A
            row that begins to pass is an INSERT, one that no longer passes a DELETE.
        branch: whose lineage the range is in.
        from_snapshot_id_exclusive: ``after_snapshot_id`` by the name that Polars has for it.
        to_snapshot_id_inclusive: ``up_to_snapshot_id`` by the name that Polars has for it.

    Returns:
        ``_change_type``, ``_change_ordinal``, ``_commit_snapshot_id``, ``_commit_timestamp``, then the table's columns
        in the schema of the range's last snapshot. An empty range has no rows.

    Raises:
        UsageError: an argument of another type, or a range that ends before it begins.
        TerminalError: the range cannot be read; while reading, a file is damaged or an audit fails.
        NotBuiltError: a column or a data file that this release cannot read.
    """
    engine = LocalEngine()
    scan = ChangelogScan.requested(
        table,
        after_snapshot_id=after_snapshot_id,
        up_to_snapshot_id=up_to_snapshot_id,
        after_timestamp=after_timestamp,
        up_to_timestamp=up_to_timestamp,
        identifier_columns=identifier_columns,
        changes=changes,
        commit_groups=commit_groups,
        columns=columns,
        filter=filter,
        branch=branch,
        from_snapshot_id_exclusive=from_snapshot_id_exclusive,
        to_snapshot_id_inclusive=to_snapshot_id_inclusive,
        cores=engine.threads,
    )
    return pa.RecordBatchReader.from_batches(scan.schema, scan.read(engine))


def read_changed_partitions(
    table: Table,
    after_snapshot_id: int | None = None,
    up_to_snapshot_id: int | None = None,
    *,
    after_timestamp: datetime | None = None,
    up_to_timestamp: datetime | None = None,
    branch: str = "main",
) -> pa.Table:
    """The partitions in which a range of a table's snapshots may have changed rows; no other partition has a change.

    In these partitions a step added or removed a data file, or changed the delete files that apply to one. Whether the
    rows differ, too, only `read_changes` says. Metadata and manifests are read, no data file.

    Args:
        table: as in `read_changes`; so are the bounds of the range.

    Returns:
        A row for each partition: ``spec_id`` (int32), ``partition`` (a struct of Iceberg's partition values, of all
        specs that are in the range), ``path`` (such as ``origin=JFK/day=2026-11-30``; empty without partition fields).

    Raises:
        UsageError: an argument of another type, or a range that ends before it begins.
        TerminalError: the range cannot be read.
    """
    # Which snapshots one commit published does not matter here, and takes a metadata file for each of them to find out.
    loaded, snapshots = ChangelogScan.requested_range(
        "read_changed_partitions",
        table,
        branch,
        "split",
        after_snapshot_id=after_snapshot_id,
        up_to_snapshot_id=up_to_snapshot_id,
        after_timestamp=after_timestamp,
        up_to_timestamp=up_to_timestamp,
    )
    return ScanPlan.of(loaded, snapshots.steps).changed_partitions(loaded)
