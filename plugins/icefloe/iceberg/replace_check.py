"""The check that a ``replace`` snapshot, which is skipped, kept as many rows as there were."""

from pyiceberg.table.snapshots import Snapshot

from icefloe.errors import TerminalError
from icefloe.iceberg.history import History
from icefloe.iceberg.manifests import ManifestReader

__all__ = ["check_replace", "live_rows"]


def check_replace(snapshot: Snapshot, history: History, reader: ManifestReader) -> str | None:
    """Compare the live rows before and after a ``replace`` snapshot where both are known exactly.

    Returns:
        None when they agree; the warning that it could not be checked otherwise.

    Raises:
        TerminalError: they differ, so the snapshot changed rows although it says that it did not.
    """
    parent = history.snapshots.get(snapshot.parent_snapshot_id or -1)
    before = None if parent is None else live_rows(parent, reader)
    after = live_rows(snapshot, reader)
    if before is None or after is None:
        reason = (
            "the snapshot before it expired" if parent is None else "delete files are in force or counts are missing"
        )
        return (
            f"replace snapshot {snapshot.snapshot_id} of table {history.table_name} was skipped, and it could not be "
            f"checked that it kept every row: {reason}"
        )
    if before != after:
        raise TerminalError(
            f"replace snapshot {snapshot.snapshot_id} of table {history.table_name} had to keep the {before} rows "
            f"before it, found {after} after it: its writer changed rows under the name of a compaction; load the "
            "table anew",
            table=history.table_name, snapshot_id=snapshot.snapshot_id, rows_before=before, rows_after=after,
        )  # fmt: skip
    return None


def live_rows(snapshot: Snapshot, reader: ManifestReader) -> int | None:
    """The live rows at a snapshot from its manifest list; None where a delete file or a missing count hides them.

    V1 writers may leave the counts out; then the snapshot's summary tells.
    """
    manifests = [manifest for manifest in reader.manifests(snapshot) if manifest.may_list_live_files]
    if any(manifest.holds_deletes for manifest in manifests):
        return None
    counts = [manifest.live_rows for manifest in manifests]
    if None in counts:
        return _total_records(snapshot)
    return sum(count for count in counts if count is not None)


def _total_records(snapshot: Snapshot) -> int | None:
    total = snapshot.summary.additional_properties.get("total-records") if snapshot.summary else None
    return int(total) if total is not None and total.isdecimal() else None
