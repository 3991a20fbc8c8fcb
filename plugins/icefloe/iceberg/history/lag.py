"""The lag of a cursor behind its branch."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.history import MAIN, History, commits_after, is_replace
from icefloe.iceberg.history.summaries import changed_records, deletes_added

__all__ = ["commits_behind", "lag"]


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
    pending = commits_behind(history, branch=branch, cursor_snapshot_id=cursor_snapshot_id)
    if pending is None:
        return Lag(snapshots=None, rows=None)
    if is_loading:
        return _loading(pending, history.snapshots.get(cursor_snapshot_id or -1))
    counts = [touched_records(snapshot) for snapshot in pending]
    return Lag(
        snapshots=len(pending),
        rows=None if None in counts else sum(count for count in counts if count is not None),
        since_timestamp_ms=pending[0].timestamp_ms if pending else None,
    )


def commits_behind(history: History, *, branch: str, cursor_snapshot_id: int | None) -> Sequence[Snapshot] | None:
    """The snapshots of a branch after the cursor, oldest first, without ``replace``; None if it is not in the history.

    Raises:
        UnknownBranchError: there is no such branch.
    """
    newest = history.head(branch)
    lineage = history.lineage(newest.snapshot_id) if newest else []
    commits = lineage[::-1] if cursor_snapshot_id is None else commits_after(lineage, cursor_snapshot_id)
    return None if commits is None else [snapshot for snapshot in commits if not is_replace(snapshot)]


def _loading(pending: Sequence[Snapshot], loaded: Snapshot | None) -> Lag:
    return Lag(
        snapshots=1 + len(pending), rows=None, since_timestamp_ms=None if loaded is None else loaded.timestamp_ms
    )


def touched_records(snapshot: Snapshot) -> int | None:
    """Records in the files that a snapshot added and deleted; None if its summary does not say."""
    records = changed_records(snapshot)
    return None if records is None else sum(records) + deletes_added(snapshot)
