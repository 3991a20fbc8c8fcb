"""The states of a branch that readers saw, one after another, as its log has them: ``follow: log``."""

from collections.abc import Sequence

from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.history import MAIN, BranchMove, NotAnAncestorError, commits_after
from icefloe.iceberg.history.loaded_table import LoadedTable, SnapshotOrigin, origin_of
from icefloe.iceberg.history.passage import Passage, PublishedState
from icefloe.iceberg.schemas.table_schema import require_comparable_states
from icefloe.pipeline.settings import RollbackOption

__all__ = ["published_passage"]


def published_passage(
    table: LoadedTable,
    *,
    branch: str,
    after_snapshot_id: int | None,
    made_current_at_ms: int | None = None,
    up_to_snapshot_id: int | None = None,
    is_load: bool = False,
    on_rollback: RollbackOption = "compensate",
) -> Passage:
    """The passage of a branch or tag over every state after an entry of its log.

    Reads metadata files for other branches than ``main``, which have no log.

    Args:
        after_snapshot_id: of the entry; None: from the oldest one on, whose rows are all new.
        made_current_at_ms: of the entry; None: its last one.
        up_to_snapshot_id: inclusive, the last entry of it; None: all.
        is_load: only the last state, all of whose rows are new.

    Raises:
        ExpiredHistoryError: the log does not reach back to that entry, or a snapshot behind it has expired.
        NotAnAncestorError: the branch was moved back or aside, and ``on_rollback`` is ``fail``; or the log lacks the
            end.
    """
    moves = branch_entries(table, branch, after_snapshot_id, made_current_at_ms)
    if up_to_snapshot_id is not None:
        ends = [number for number, move in enumerate(moves, 1) if move.snapshot_id == up_to_snapshot_id]
        if not ends:
            raise NotAnAncestorError(
                f"snapshot {up_to_snapshot_id} of table {table.name} is in no entry of the log of branch {branch!r}, "
                "which follow: log reads: end the range at a snapshot that was current"
            )
        moves = moves[: ends[-1]]
    if after_snapshot_id is None or not moves:
        moves = moves[-1:] if is_load else moves
        return _passage(None, _states(table, None, moves, on_rollback))
    place = _place(moves, after_snapshot_id, made_current_at_ms)
    if place is None:
        gap = table.history.expired(after_snapshot_id, table.history.lineage(moves[-1].snapshot_id)[-1])
        raise gap.restated(
            f"{gap.sentence}; the log of branch {branch!r} does not reach back to it, and follow: log needs each entry"
        )
    return _passage(after_snapshot_id, _states(table, moves[place], moves[place + 1 :], on_rollback))


def branch_entries(
    table: LoadedTable, branch: str, snapshot_id: int | None = None, since_ms: int | None = None
) -> Sequence[BranchMove]:
    """The log of a branch, oldest first; from metadata files if there is none, or if it lacks a snapshot."""
    history = table.history
    if history.head(branch) is None:
        return ()
    entries = list(history.log) if branch == MAIN else []
    if not entries or (snapshot_id is not None and all(each.snapshot_id != snapshot_id for each in entries)):
        entries = _entries_of_files(table, branch, since_ms) or entries
    return [
        each for number, each in enumerate(entries) if not number or each.snapshot_id != entries[number - 1].snapshot_id
    ]


def _entries_of_files(table: LoadedTable, branch: str, since_ms: int | None) -> list[BranchMove]:
    entries = list[BranchMove]()
    for version in table.log.newest_first():
        if version is None:
            break
        if (head := version.branch_heads.get(branch)) is not None:
            entries.append(BranchMove(snapshot_id=head, timestamp_ms=version.last_updated_ms))
        if since_ms is not None and version.last_updated_ms < since_ms:
            break
    return entries[::-1]


def _place(moves: Sequence[BranchMove], snapshot_id: int, made_current_at_ms: int | None) -> int | None:
    """The place of an entry; None if the log lacks it."""
    # Of equal times the last one: states that were current for no time before it match no instant.
    places = [place for place, move in enumerate(moves) if move.snapshot_id == snapshot_id]
    exact = [place for place in places if made_current_at_ms in (None, moves[place].timestamp_ms)]
    if exact:
        return exact[-1]
    # Metadata files that tell the moves of other branches are deleted with time, the oldest first.
    return 0 if 0 in places and moves[0].timestamp_ms > (made_current_at_ms or 0) else None


def _passage(after_snapshot_id: int | None, states: tuple[PublishedState, ...]) -> Passage:
    end_id = states[-1].snapshot.snapshot_id if states else after_snapshot_id
    return Passage(after_snapshot_id=after_snapshot_id, up_to_snapshot_id=end_id, published=states)


def _states(
    table: LoadedTable, before: BranchMove | None, moves: Sequence[BranchMove], on_rollback: RollbackOption
) -> tuple[PublishedState, ...]:
    found = list[PublishedState]()
    for move in moves:
        found.append(_state(table, before, move, on_rollback))
        before = move
    return tuple(found)


def _state(
    table: LoadedTable, before: BranchMove | None, move: BranchMove, on_rollback: RollbackOption
) -> PublishedState:
    history = table.history
    left_id = None if before is None else before.snapshot_id
    lost = [each for each in (left_id, move.snapshot_id) if each is not None and each not in history.snapshots]
    if lost:
        raise history.expired(lost[0], min(history.snapshots.values(), key=lambda each: each.timestamp_ms))
    lineage = history.lineage(move.snapshot_id)
    commits = None if left_id is None else commits_after(lineage, left_id)
    if left_id is not None and commits is None:
        _refuse_unknown_way(table, lineage, left_id)
        if on_rollback == "fail":
            raise NotAnAncestorError(
                f"snapshot {left_id} is not an ancestor of snapshot {move.snapshot_id}, which became current after it "
                f"in table {table.name}, and on_rollback is fail"
            )
        require_comparable_states(table.metadata, left_id, move.snapshot_id, table=table.name)
    return PublishedState(
        snapshot=lineage[0], left_snapshot_id=left_id, commits=commits, made_current_at_ms=move.timestamp_ms
    )


def _refuse_unknown_way(table: LoadedTable, lineage: Sequence[Snapshot], left_id: int) -> None:
    """Raise if snapshots between two entries have expired: the log may have lost entries with them."""
    history, reached = table.history, lineage[0]
    went_back = (reached.sequence_number or 0) < (history.snapshot(left_id).sequence_number or 0)
    if went_back or history.nearest_common_ancestor(reached.snapshot_id, left_id) is not None:
        return
    if origin_of(lineage[-1], table.manifests) is SnapshotOrigin.GAP:
        raise history.expired(left_id, lineage[-1])
