"""The lag of a cursor behind its branch."""

from dataclasses import dataclass

from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.history import MAIN, History, is_replace
from icefloe.iceberg.history.summaries import changed_records, deletes_added

__all__ = ["Lag", "lag"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of a cursor behind the head of its branch.

    Attributes:
        snapshots: number of snapshots between the two, without ``replace``; None if the cursor is not in the branch's
            history.
        rows: number of records in the data files that these snapshots added and deleted, carried-over records too, and
            of the positions and keys in their delete files; None if a summary does not say.
        since_timestamp_ms: time when the oldest of these snapshots was committed; None if there are none.
    """

    snapshots: int | None
    rows: int | None
    since_timestamp_ms: int | None = None


def lag(history: History, *, branch: str = MAIN, cursor_snapshot_id: int | None, is_loading: bool = False) -> Lag:
    """The lag of the cursor; a cursor of None is before the first snapshot. Reads nothing.

    Args:
        history: of the table.
        branch: a branch or a tag.
        cursor_snapshot_id: the snapshot that is delivered.
        is_loading: the cursor's own snapshot is delivered in part only; it counts too, and its rows are not known.

    Raises:
        UnknownBranchError: there is no such branch.
    """
    newest = history.head(branch)
    pending: list[Snapshot] = []
    is_found = cursor_snapshot_id is None
    for snapshot in history.lineage(newest.snapshot_id) if newest else ():
        if snapshot.snapshot_id == cursor_snapshot_id:
            is_found = True
            break
        pending.append(snapshot)
        # The cursor's own snapshot may have expired. What came after it is known all the same.
        if cursor_snapshot_id is not None and snapshot.parent_snapshot_id == cursor_snapshot_id:
            is_found = True
            break
    if not is_found:
        return Lag(snapshots=None, rows=None)
    if is_loading:
        return _loading(pending, history.snapshots.get(cursor_snapshot_id or -1))
    changing = [snapshot for snapshot in pending if not is_replace(snapshot)]
    counts = [touched_records(snapshot) for snapshot in changing]
    return Lag(
        snapshots=len(changing),
        rows=None if None in counts else sum(count for count in counts if count is not None),
        since_timestamp_ms=changing[-1].timestamp_ms if changing else None,
    )


def _loading(pending: list[Snapshot], loaded: Snapshot | None) -> Lag:
    behind = [snapshot for snapshot in pending if not is_replace(snapshot)]
    return Lag(snapshots=1 + len(behind), rows=None, since_timestamp_ms=None if loaded is None else loaded.timestamp_ms)


def touched_records(snapshot: Snapshot) -> int | None:
    """Records in the files that a snapshot added and deleted; None if its summary does not say."""
    records = changed_records(snapshot)
    return None if records is None else sum(records) + deletes_added(snapshot)
