"""The states of a branch that readers saw, one after another, as its log has them: ``follow: log``."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Self

from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.history import MAIN, BranchMove, History, NotAnAncestorError, commits_after
from icefloe.iceberg.history.loaded_table import LoadedTable, SnapshotOrigin, origin_of
from icefloe.iceberg.history.passage import Passage, PublishedState
from icefloe.iceberg.schemas.table_schema import require_comparable_states
from icefloe.pipeline.settings import RollbackOption

__all__ = ["BranchLog"]


@dataclass(frozen=True, slots=True)
class BranchLog:
    """The states that a branch or tag came to, by the snapshot log or the metadata files; oldest first."""

    entries: Sequence[BranchMove]

    @classmethod
    def of(
        cls, table: LoadedTable, branch: str, snapshot_id: int | None = None, made_current_at_ms: int | None = None
    ) -> Self:
        """The snapshot log; metadata files for other branches than ``main``, and if it lacks an entry."""
        if table.history.head(branch) is None:
            return cls(())
        log = cls.of_main(table.history, branch)
        if log.entries and (snapshot_id is None or log.place_of(snapshot_id, made_current_at_ms) is not None):
            return log
        return cls(_entries_of_files(table, branch, snapshot_id, made_current_at_ms) or log.entries)

    @classmethod
    def of_main(cls, history: History, branch: str) -> Self:
        """The snapshot log alone, without a look at files; empty for other branches."""
        return cls(history.log if branch == MAIN else ())

    @classmethod
    def passage(
        cls,
        table: LoadedTable,
        *,
        branch: str,
        after_snapshot_id: int | None,
        made_current_at_ms: int | None = None,
        up_to_snapshot_id: int | None = None,
        is_load: bool = False,
        on_rollback: RollbackOption = "compensate",
    ) -> Passage:
        """The passage of a branch or tag over every state after an entry.

        Args:
            after_snapshot_id: of the entry; None: from the oldest one on, whose rows are all new.
            made_current_at_ms: of the entry; None: its last one.
            up_to_snapshot_id: inclusive, the last entry of it; None: all.
            is_load: only the last state, all of whose rows are new.

        Raises:
            ExpiredHistoryError: the log does not reach back to that entry, or a snapshot behind it has expired.
            NotAnAncestorError: the branch was moved back or aside, and ``on_rollback`` is ``fail``; or the log lacks
                the end.
        """
        log = cls.of(table, branch, after_snapshot_id, made_current_at_ms)
        if up_to_snapshot_id is not None:
            end = log.place_of(up_to_snapshot_id)
            if end is None:
                raise NotAnAncestorError(
                    f"snapshot {up_to_snapshot_id} of table {table.name} is in no entry of the log of branch "
                    f"{branch!r}, which follow: log reads: end the range at a snapshot that was current"
                )
            log = cls(log.entries[: end + 1])
        if after_snapshot_id is None or not log.entries:
            moves = _moves(log.entries)
            return _passage(None, _states(table, None, moves[-1:] if is_load else moves, on_rollback))
        place = log.place_of(after_snapshot_id, made_current_at_ms)
        if place is None:
            gap = table.history.expired(after_snapshot_id, table.history.lineage(log.entries[-1].snapshot_id)[-1])
            raise gap.restated(
                f"{gap.sentence}; the log of branch {branch!r} does not reach back to it, and follow: log needs each "
                "entry"
            )
        left, *moves = _moves(log.entries[place:])
        return _passage(after_snapshot_id, _states(table, left, moves, on_rollback))

    def place_of(self, snapshot_id: int, made_current_at_ms: int | None = None) -> int | None:
        """The place of an entry, without a time of the last one of the snapshot; None: it is not there."""
        # Of equal times the last one: states that were current for no time before it match no instant.
        places = [place for place, entry in enumerate(self.entries) if entry.snapshot_id == snapshot_id]
        exact = [place for place in places if made_current_at_ms in (None, self.entries[place].timestamp_ms)]
        if exact:
            return exact[-1]
        # Expiry cuts a log in front, and metadata files are deleted, the oldest first: the snapshot came back later.
        return 0 if 0 in places else None

    def shows_others_after(self, snapshot_id: int, made_current_at_ms: int | None) -> bool:
        """True if readers saw other states after an entry, though its snapshot may be current again."""
        place = self.place_of(snapshot_id, made_current_at_ms)
        return bool(self.entries) if place is None else len(_moves(self.entries[place:])) > 1


def _entries_of_files(
    table: LoadedTable, branch: str, snapshot_id: int | None, made_current_at_ms: int | None
) -> list[BranchMove]:
    entries = list[BranchMove]()
    for version in table.log.newest_first():
        if version is None:
            break
        if (head := version.branch_heads.get(branch)) is not None:
            entries.append(BranchMove(snapshot_id=head, timestamp_ms=version.last_updated_ms))
        # Not by the time alone: clocks go back.
        if (head, version.last_updated_ms) == (snapshot_id, made_current_at_ms):
            break
    return entries[::-1]


def _moves(entries: Sequence[BranchMove]) -> list[BranchMove]:
    """The first of neighbours with one snapshot: expired ones between them, or commits of other branches."""
    return [next(equal) for _, equal in groupby(entries, lambda entry: entry.snapshot_id)]


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
