"""The commits between two places of a cursor: those that a move skips, and those that it repeats."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.history import History, UnknownSnapshotError, is_replace
from icefloe.iceberg.history.lag import touched_records
from icefloe.iceberg.table import ancestry

__all__ = ["Commits", "CursorDistance", "cursor_distance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """Some snapshots of a table.

    Attributes:
        snapshots: their number, without ``replace``.
        rows: records in the files that they added and deleted, carried-over records too; None if a summary does not
            say.
    """

    snapshots: int
    rows: int | None

    @classmethod
    def of(cls, snapshots: Sequence[Snapshot]) -> "Commits":
        """The numbers of some snapshots."""
        changing = [snapshot for snapshot in snapshots if not is_replace(snapshot)]
        counts = [touched_records(snapshot) for snapshot in changing]
        rows = None if None in counts else sum(count for count in counts if count is not None)
        return cls(snapshots=len(changing), rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorDistance:
    """The commits between two places of a cursor.

    Attributes:
        skipped: commits whose changes a move leaves out.
        repeated: commits whose changes it delivers again.
    """

    skipped: Commits
    repeated: Commits


def cursor_distance(
    history: History, cursor_snapshot_id: int | None, snapshot_id: int, *, branch: str
) -> CursorDistance | None:
    """The commits that a move of the cursor skips or repeats; None if the cursor's own snapshot expired.

    Args:
        history: of the table as loaded.
        cursor_snapshot_id: None: before the first snapshot.
        snapshot_id: place to move to.
        branch: the branch or tag that the pipeline follows.

    Raises:
        UnknownSnapshotError: the place is not in the history of the branch, or expired.
        UnknownBranchError: there is no such branch.
    """
    head = history.head(branch)
    if head is None or not any(each.snapshot_id == snapshot_id for each in history.lineage(head.snapshot_id)):
        raise UnknownSnapshotError(
            f"the cursor cannot be set to snapshot {snapshot_id}, because it is not in the history of branch "
            f"{branch!r} of table {history.table_name}; choose one of its snapshots that is still there",
            table=history.table_name,
            snapshot_id=snapshot_id,
            branch=branch,
        )
    if cursor_snapshot_id is not None and cursor_snapshot_id not in history.snapshots:
        return None
    # Cursor c, target t, common ancestor a:   a - x - c        repeated: x, c
    #                                           \\- y - t       skipped:  y, t
    to_target = history.lineage(snapshot_id)
    to_cursor = list(ancestry(history.snapshots, cursor_snapshot_id))
    shared = {each.snapshot_id for each in to_target} & {each.snapshot_id for each in to_cursor}
    return CursorDistance(
        skipped=Commits.of([each for each in to_target if each.snapshot_id not in shared]),
        repeated=Commits.of([each for each in to_cursor if each.snapshot_id not in shared]),
    )
