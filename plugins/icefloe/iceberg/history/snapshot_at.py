"""The snapshot that was current at a time."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from icefloe.iceberg.history.first_snapshot import SnapshotOrigin, origin_of
from icefloe.iceberg.history.history import MAIN, BranchMove, ExpiredHistoryError, History
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.manifests.manifest_reader import ManifestReader

__all__ = ["snapshot_at"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def snapshot_at(table: LoadedTable, timestamp: datetime, *, branch: str = MAIN) -> int | None:
    """The id of the snapshot that was current at a time, by the snapshot log; on other branches by the lineage's times.

    Args:
        table: as loaded.
        timestamp: with an offset; a snapshot committed in that very millisecond counts.
        branch: a branch or a tag.

    Returns:
        None if the table had no snapshot yet: a range from there starts with the history, and a range that ends there
        is empty.

    Raises:
        ValueError: the timestamp has no offset.
        UnknownBranchError: there is neither a branch nor a tag of that name.
        ExpiredHistoryError: the snapshot that was current then has expired.
        TerminalError, TransientError: the manifests of the oldest snapshot cannot be read; they show if history starts
            there.
    """
    if timestamp.tzinfo is None:
        raise ValueError(f"a time of the table's history needs an offset, found {timestamp.isoformat()}")
    history = table.history
    moves = _moves(history, branch)
    timestamp_ms = (timestamp - _EPOCH) // timedelta(milliseconds=1)
    position = bisect_right([move.timestamp_ms for move in moves], timestamp_ms)
    if position < len(moves):
        _refuse_gap(history, table.manifests, moves[:position], moves[position], timestamp)
    return history.snapshot(moves[position - 1].snapshot_id).snapshot_id if position else None


def _moves(history: History, branch: str) -> Sequence[BranchMove]:
    newest = history.head(branch)
    if newest is None:
        return ()
    if branch == MAIN and history.log:
        return history.log
    lineage = reversed(history.lineage(newest.snapshot_id))
    return [BranchMove(snapshot_id=s.snapshot_id, timestamp_ms=s.timestamp_ms) for s in lineage]


def _refuse_gap(
    history: History, reader: ManifestReader, before: Sequence[BranchMove], following: BranchMove, timestamp: datetime
) -> None:
    """Raise if a snapshot that expired may have been current between two moves."""
    # The log says 1, then 3, and a time between them is asked for. If 3 comes from 1, it was 1. Otherwise a snapshot in
    # between may have expired, unless the branch was moved: to a snapshot that it had before, to one whose parent is
    # still there, or to a new beginning.
    if before and history.is_ancestor(before[-1].snapshot_id, following.snapshot_id):
        return
    snapshot = history.snapshot(following.snapshot_id)
    is_rollback = any(move.snapshot_id == following.snapshot_id for move in before)
    if is_rollback or (before and snapshot.parent_snapshot_id in history.snapshots):
        return
    if origin_of(snapshot, reader) is SnapshotOrigin.ROOT:
        return
    raise ExpiredHistoryError(
        f"the snapshot that was current in table {history.table_name} at {timestamp.isoformat()} expired, or the "
        f"catalog leaves it out: the next one still there is {snapshot.snapshot_id}",
        table=history.table_name, snapshot_id=None, oldest_snapshot_id=snapshot.snapshot_id,
    )  # fmt: skip
