"""The state on which a branch lands when it leaves a snapshot."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.first_snapshot import SnapshotOrigin, origin_of
from icefloe.iceberg.history.history import (
    MAIN,
    BranchMove,
    History,
    NotAnAncestorError,
)
from icefloe.iceberg.history.loaded_table import LoadedTable, MetadataLog
from icefloe.iceberg.schemas.table_schema import require_comparable_states
from icefloe.pipeline.option_values import RollbackOption

__all__ = ["Landing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A state reached at once, without commits: of a load, or of a moved branch or tag.

    Attributes:
        left_snapshot_id: left for this one; None: every row is new.
    """

    snapshot: Snapshot
    left_snapshot_id: int | None
    timestamp_ms: int

    @classmethod
    def of_load(cls, snapshot: Snapshot) -> "Landing":
        """A landing all of whose rows are new."""
        return cls(snapshot=snapshot, left_snapshot_id=None, timestamp_ms=snapshot.timestamp_ms)


def landing_of_rollback(
    table: LoadedTable,
    lineage: Sequence[Snapshot],
    *,
    branch: str,
    after_snapshot_id: int,
    was_head: bool,
    on_rollback: RollbackOption,
) -> Landing:
    """The state to which a branch moved when it left a snapshot.

    Args:
        lineage: of the end, newest first; the snapshot that was left is not in it.
        was_head: the caller knows that the branch led to that snapshot once.
    """
    history, up_to, oldest = table.history, lineage[0], lineage[-1]
    if after_snapshot_id not in history.snapshots:
        raise history.expired(after_snapshot_id, oldest)
    common_id = history.nearest_common_ancestor(up_to.snapshot_id, after_snapshot_id)
    # Logs know ids only, and a negative one is an id that was used again: the common ancestor has to do.
    is_reused = after_snapshot_id < 0
    moves = () if is_reused else branch_log(history, table.log, branch=branch, after_snapshot_id=after_snapshot_id)
    move = landing_after(
        history,
        moves,
        was_head=was_head or is_reused or branch != MAIN,
        after_snapshot_id=after_snapshot_id,
        up_to_snapshot_id=up_to.snapshot_id,
    )
    if (
        common_id is None
        and not is_reused
        and not went_back(history, moves, move, after_snapshot_id=after_snapshot_id)
        and origin_of(oldest, table.manifests) is SnapshotOrigin.GAP
    ):
        raise history.expired(after_snapshot_id, oldest)
    if move is None:
        reason = (
            "a range follows the history of one branch; choose both ends on it, or start a pipeline over by icefloe "
            "reset"
        )
        raise NotAnAncestorError.on_branch(branch, table.name, after_snapshot_id, up_to.snapshot_id, reason)
    if on_rollback == "fail":
        reason = f"the branch was moved to snapshot {move.snapshot_id}"
        if is_reused:
            reason = f"its writer took it back and used its id again, and the branch goes on from {move.snapshot_id}"
        raise NotAnAncestorError.on_branch(branch, table.name, after_snapshot_id, up_to.snapshot_id, reason)
    require_comparable_states(table.metadata, after_snapshot_id, move.snapshot_id, table=table.name)
    return Landing(
        snapshot=history.snapshot(move.snapshot_id),
        left_snapshot_id=after_snapshot_id,
        timestamp_ms=move.timestamp_ms,
    )


def branch_log(history: History, log: MetadataLog, *, branch: str, after_snapshot_id: int) -> Sequence[BranchMove]:
    """Moves of the branch, oldest first, from ``after_snapshot_id`` on; empty if nothing is known.

    From ``main``'s snapshot log; for other branches, and if a replaced table cleared that log, from the metadata files.
    If these reach back before the snapshot and the branch never pointed to it, all their moves are returned.
    """
    if branch == MAIN and any(move.snapshot_id == after_snapshot_id for move in history.log):
        return history.log
    moves: list[BranchMove] = []
    for version in log.newest_first():
        head = version.branch_heads.get(branch) if version else None
        if version is not None and head is not None:
            moves.append(BranchMove(snapshot_id=head, timestamp_ms=version.last_updated_ms))
        if head == after_snapshot_id:
            return moves[::-1]
    return moves[::-1] if _saw_all_of(after_snapshot_id, log) else ()


def landing_after(
    history: History, moves: Sequence[BranchMove], *, was_head: bool, after_snapshot_id: int, up_to_snapshot_id: int
) -> BranchMove | None:
    """The last move between two snapshots that was not a commit; None if none is known.

    It goes to the end or an ancestor of it; if nothing else is known, to the nearest common ancestor or, without one,
    the end.

    Args:
        was_head: the branch counts as having led there if nothing is known; for ``main``, which has a log, only if the
            caller knows (`landing_of_rollback`).
        after_snapshot_id: left by the branch; not an ancestor of the end.
    """
    fallback = _without_log(history, after_snapshot_id, up_to_snapshot_id)
    if not moves:
        return fallback if was_head else None
    # The cursor is at 3, the branch was rolled back to 1, went on to 4 and 5, and 5 is the end:
    #   moves   1  2  3  1  4  5
    #                 |  |     arrival
    #                 |  landing: the last move that is not from a snapshot to a descendant
    #                 departure
    # Earlier moves in between do not count: the step compares the state at 3 with the state at the last landing.
    arrival = _arrival(history, moves, up_to_snapshot_id)
    departures = [i for i, move in enumerate(moves[:arrival]) if move.snapshot_id == after_snapshot_id]
    if arrival is None or not departures:
        return None
    for index in range(arrival, departures[-1], -1):
        if not history.is_ancestor(moves[index - 1].snapshot_id, moves[index].snapshot_id):
            landing_id = moves[index].snapshot_id
            is_usable = landing_id in history.snapshots and history.is_ancestor(landing_id, up_to_snapshot_id)
            return moves[index] if is_usable else fallback
    return fallback


def went_back(
    history: History, moves: Sequence[BranchMove], landing: BranchMove | None, *, after_snapshot_id: int
) -> bool:
    """True if a branch is known to have moved to an older snapshot.

    The changes are then the difference of the two states, though no common ancestor shows. V1 tables number no
    snapshots, so nothing is known of them.
    """
    if landing is None or not moves:
        return False
    left, reached = history.snapshot(after_snapshot_id), history.snapshots.get(landing.snapshot_id)
    return reached is not None and (reached.sequence_number or 0) < (left.sequence_number or 0)


def _arrival(history: History, moves: Sequence[BranchMove], up_to_snapshot_id: int) -> int | None:
    exact = [index for index, move in enumerate(moves) if move.snapshot_id == up_to_snapshot_id]
    if exact:
        return exact[-1]
    # Java leaves the inner snapshots of a commit out of the log.
    later = (i for i, move in enumerate(moves) if history.is_ancestor(up_to_snapshot_id, move.snapshot_id))
    return next(later, None)


def _without_log(history: History, after_snapshot_id: int, up_to_snapshot_id: int) -> BranchMove:
    common_id = history.nearest_common_ancestor(up_to_snapshot_id, after_snapshot_id)
    landing_id = up_to_snapshot_id if common_id is None else common_id
    later = [s for s in history.lineage(up_to_snapshot_id) if s.parent_snapshot_id == landing_id]
    timestamp_ms = later[0].timestamp_ms if later else history.last_updated_ms
    return BranchMove(snapshot_id=landing_id, timestamp_ms=timestamp_ms)


def _saw_all_of(snapshot_id: int, log: MetadataLog) -> bool:
    """True if the first metadata file is older, and none is missing."""
    *_, first = versions = [*log.newest_first()]
    return first is not None and None not in versions and snapshot_id not in first.snapshot_ids
