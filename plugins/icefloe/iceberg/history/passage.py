"""The passage of a branch through a range: every snapshot, found once."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.history import MAIN, BranchMove, History, NotAnAncestorError, commits_after, is_replace
from icefloe.iceberg.history.loaded_table import (
    LoadedTable,
    MetadataLog,
    SnapshotOrigin,
    origin_of,
    require_removed_files,
)
from icefloe.iceberg.schemas.table_schema import require_comparable_states
from icefloe.pipeline.settings import RollbackOption

__all__ = ["Landing", "Passage", "PublishedState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A state reached at once, without commits: of a load, or of a moved branch or tag.

    Attributes:
        left_snapshot_id: left for this one; None: every row is new.
    """

    snapshot: Snapshot
    left_snapshot_id: int | None = None
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedState:
    """A state that a branch came to, by its log.

    Attributes:
        snapshot: current from then on.
        left_snapshot_id: current before; None: every row is new.
        commits: that lead there from the state before, oldest first, though readers saw the last one alone; None: the
            branch was moved there.
        made_current_at_ms: as the column ``made_current_at`` of Iceberg's ``history`` table.
    """

    snapshot: Snapshot
    left_snapshot_id: int | None
    commits: tuple[Snapshot, ...] | None = None
    made_current_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The way of a branch or tag through a range: a landing at most, then commits; or every state of its log.

    Attributes:
        after_snapshot_id: exclusive; None: from the start of the history, or a load.
        up_to_snapshot_id: inclusive; None: the branch has no snapshot.
        landing: reached before the commits; None if they go on from ``after_snapshot_id``.
        commits: oldest first, each the parent of the next.
        published: in place of both, every state that readers saw; None: the lineage is followed.
    """

    after_snapshot_id: int | None
    up_to_snapshot_id: int | None
    landing: Landing | None = None
    commits: tuple[Snapshot, ...] = ()
    published: tuple[PublishedState, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """True if the branch has not moved."""
        return self.landing is None and not self.commits and not self.published

    @staticmethod
    def find(
        table: LoadedTable,
        *,
        branch: str = MAIN,
        after_snapshot_id: int | None = None,
        up_to_snapshot_id: int | None = None,
        was_head: bool = False,
        after_was_head: bool = False,
        load: Literal["changes", "full", "from_earliest"] = "changes",
        on_rollback: RollbackOption = "fail",
    ) -> "Passage":
        """The snapshots that lead from one snapshot of a branch to another.

        Reads metadata files after a rollback, and manifests if history starts inside the range.

        Args:
            branch: a branch, or a tag, which means the history of its snapshot.
            after_snapshot_id: exclusive; None: from the start of the history. It may have expired if a child exists,
                and the files that this removed.
            up_to_snapshot_id: inclusive; None: the head of the branch.
            was_head: the caller knows that the end was the branch's head once; expired history need not prove it.
            after_was_head: the same of the start. If its end is unknown, the difference of the two states is delivered.
            load: ``changes``: the commits of the range. ``full``: a landing at the end. ``from_earliest``: the commits
                since the oldest snapshot, a landing unless history starts with it. The last two have no start.
            on_rollback: if the branch left the start behind, ``compensate``: a landing on the snapshot that became
                current, then the commits since; ``fail``: raise.

        Raises:
            NotAnAncestorError: the start is no ancestor of the end, and no rollback is compensated.
            ExpiredHistoryError: the range starts before the oldest existing snapshot.
        """
        end = _end(table, branch, up_to_snapshot_id, was_head=was_head)
        if end is None:
            if after_snapshot_id is None:
                return Passage(after_snapshot_id=None, up_to_snapshot_id=None)
            reason = "the branch has no snapshot any more; icefloe delivers the difference after the next commit"
            raise NotAnAncestorError.on_branch(branch, table.name, after_snapshot_id, None, reason)
        if load == "full":
            loaded = Landing(snapshot=end, timestamp_ms=end.timestamp_ms)
            return Passage(after_snapshot_id=None, up_to_snapshot_id=end.snapshot_id, landing=loaded)
        lineage = table.history.lineage(end.snapshot_id)
        if after_snapshot_id is None:
            return _from_oldest(table, lineage, needs_start=load == "changes")
        landing, commits = None, commits_after(lineage, after_snapshot_id)
        if commits is None:
            # The cursor is at 3. The branch was rolled back to 1, and 4 and 5 were committed:
            #   1 - 2 - 3        a landing on 1, which takes back 2 and 3,
            #    `- 4 - 5        then the commits 4 and 5
            landing = _landing(
                table, lineage, branch=branch, after_snapshot_id=after_snapshot_id, was_head=after_was_head,
                on_rollback=on_rollback,
            )  # fmt: skip
            commits = commits_after(lineage, landing.snapshot.snapshot_id) or ()
        elif after_snapshot_id not in table.history.snapshots and not is_replace(commits[0]):
            require_removed_files(commits[0], table.history, table.manifests, table.io)
        return Passage(
            after_snapshot_id=after_snapshot_id,
            up_to_snapshot_id=end.snapshot_id,
            landing=landing,
            commits=commits,
        )

    @staticmethod
    def of_tag(
        table: LoadedTable,
        *,
        tag: str,
        after_snapshot_id: int,
        on_rollback: RollbackOption,
    ) -> "Passage":
        """A landing on the state that a tag points to now, from the state that it pointed to.

        Readers of the tag never saw commits between. There is no landing if the tag was not moved, or over ``replace``
        snapshots only; these are the commits then.

        Raises:
            ExpiredHistoryError: the snapshot that it pointed to has expired.
            NotAnAncestorError: it was moved back or aside, and ``on_rollback`` is ``fail``.
        """
        history = table.history
        tagged = history.head(tag)
        if tagged is None or tagged.snapshot_id == after_snapshot_id:
            return Passage(after_snapshot_id=after_snapshot_id, up_to_snapshot_id=after_snapshot_id)
        lineage = history.lineage(tagged.snapshot_id)
        if after_snapshot_id not in history.snapshots:
            raise history.expired(after_snapshot_id, lineage[-1])
        is_forward = history.is_ancestor(after_snapshot_id, tagged.snapshot_id)
        if on_rollback == "fail" and not is_forward:
            raise NotAnAncestorError(
                f"snapshot {after_snapshot_id} is not an ancestor of snapshot {tagged.snapshot_id}, to which the "
                f"tag {tag!r} of table {table.name} was moved, and on_rollback is fail"
            )
        passed = list(takewhile(lambda snapshot: snapshot.snapshot_id != after_snapshot_id, lineage))
        # Compactions are checked by their counts. Comparing the two states would read all files that were replaced.
        if is_forward and all(map(is_replace, passed)):
            return Passage(
                after_snapshot_id=after_snapshot_id,
                up_to_snapshot_id=tagged.snapshot_id,
                commits=tuple(reversed(passed)),
            )
        require_comparable_states(table.metadata, after_snapshot_id, tagged.snapshot_id, table=table.name)
        return Passage(
            after_snapshot_id=after_snapshot_id,
            up_to_snapshot_id=tagged.snapshot_id,
            landing=Landing(
                snapshot=tagged, left_snapshot_id=after_snapshot_id, timestamp_ms=table.log.moved_at_ms(tag)
            ),
        )

    def up_to_first_of(self, snapshot_ids: Collection[int]) -> "Passage":
        """The passage up to the first of some snapshots; all of it without one."""
        if self.landing is not None and self.landing.snapshot.snapshot_id in snapshot_ids:
            return replace(self, up_to_snapshot_id=self.landing.snapshot.snapshot_id, commits=())
        for number, state in enumerate(self.published or (), 1):
            if state.snapshot.snapshot_id in snapshot_ids:
                end_id = state.snapshot.snapshot_id
                return replace(self, up_to_snapshot_id=end_id, published=(self.published or ())[:number])
        for number, snapshot in enumerate(self.commits, 1):
            if snapshot.snapshot_id in snapshot_ids:
                return replace(self, up_to_snapshot_id=snapshot.snapshot_id, commits=self.commits[:number])
        return self


def _end(table: LoadedTable, branch: str, up_to_snapshot_id: int | None, *, was_head: bool) -> Snapshot | None:
    """None if the branch has no snapshot."""
    history = table.history
    if up_to_snapshot_id is None:
        return history.head(branch)
    head = history.head(branch)
    end = history.snapshot(up_to_snapshot_id)
    if was_head or (head is not None and history.is_ancestor(up_to_snapshot_id, head.snapshot_id)):
        return end
    # The branch may have led there before it was rolled back or set to another snapshot.
    moves = branch_log(history, table.log, branch=branch, after_snapshot_id=up_to_snapshot_id)
    if any(history.is_ancestor(up_to_snapshot_id, move.snapshot_id) for move in moves):
        return end
    raise NotAnAncestorError(
        f"snapshot {up_to_snapshot_id} of table {table.name} is not in the history of branch "
        f"{branch!r}: end the range at a present or former head of the branch, or at an ancestor of one"
    )


def _from_oldest(table: LoadedTable, lineage: Sequence[Snapshot], *, needs_start: bool) -> Passage:
    """The oldest state is a landing, unless history starts with it."""
    oldest = lineage[-1]
    origin = origin_of(oldest, table.manifests)
    if needs_start and origin is SnapshotOrigin.GAP:
        raise table.history.expired(None, oldest)
    is_landing = origin is not SnapshotOrigin.ROOT
    return Passage(
        after_snapshot_id=None,
        up_to_snapshot_id=lineage[0].snapshot_id,
        landing=Landing(snapshot=oldest, timestamp_ms=oldest.timestamp_ms) if is_landing else None,
        commits=tuple(reversed(lineage))[is_landing:],
    )


def _landing(
    table: LoadedTable,
    lineage: Sequence[Snapshot],  # of the end, newest first; the snapshot that was left is not in it
    *,
    branch: str,
    after_snapshot_id: int,
    was_head: bool,  # the caller knows that the branch led to that snapshot once
    on_rollback: RollbackOption,
) -> Landing:
    """The state to which a branch moved when it left a snapshot."""
    history, up_to, oldest = table.history, lineage[0], lineage[-1]
    if after_snapshot_id not in history.snapshots:
        raise history.expired(after_snapshot_id, oldest)
    common_id = history.nearest_common_ancestor(up_to.snapshot_id, after_snapshot_id)
    moves = branch_log(history, table.log, branch=branch, after_snapshot_id=after_snapshot_id)
    move = landing_after(
        history,
        moves,
        was_head=was_head or branch != MAIN,
        after_snapshot_id=after_snapshot_id,
        up_to_snapshot_id=up_to.snapshot_id,
    )
    if (
        common_id is None
        and not went_back(history, moves, move, after_snapshot_id=after_snapshot_id)
        and origin_of(oldest, table.manifests) is SnapshotOrigin.GAP
    ):
        raise history.expired(after_snapshot_id, oldest)
    if move is None or on_rollback == "fail":
        reason = (
            "a range follows the history of one branch; choose both ends on it, or start a pipeline over by icefloe "
            "reset"
            if move is None
            else f"the branch was moved to snapshot {move.snapshot_id}"
        )
        raise NotAnAncestorError.on_branch(branch, table.name, after_snapshot_id, up_to.snapshot_id, reason)
    require_comparable_states(table.metadata, after_snapshot_id, move.snapshot_id, table=table.name)
    return Landing(
        snapshot=history.snapshot(move.snapshot_id),
        left_snapshot_id=after_snapshot_id,
        timestamp_ms=move.timestamp_ms,
    )


def branch_log(history: History, log: MetadataLog, *, branch: str, after_snapshot_id: int) -> Sequence[BranchMove]:
    """Moves of the branch, oldest first, from ``after_snapshot_id`` on; empty if nothing is known."""
    if branch == MAIN and any(move.snapshot_id == after_snapshot_id for move in history.log):
        return history.log
    # Other branches have no log, and a replaced table clears ``main``'s: metadata files show the moves.
    moves: list[BranchMove] = []
    for version in log.newest_first():
        head = version.branch_heads.get(branch) if version else None
        if version is not None and head is not None:
            moves.append(BranchMove(snapshot_id=head, timestamp_ms=version.last_updated_ms))
        if head == after_snapshot_id:
            return moves[::-1]
    # All moves, if they reach back before the snapshot and the branch never pointed to it.
    return moves[::-1] if _saw_all_of(after_snapshot_id, log) else ()


def landing_after(
    history: History, moves: Sequence[BranchMove], *, was_head: bool, after_snapshot_id: int, up_to_snapshot_id: int
) -> BranchMove | None:
    """The last move between two snapshots that was not a commit; None if none is known.

    It goes to the end or an ancestor of it; if nothing else is known, to the nearest common ancestor or, without one,
    the end. The branch left ``after_snapshot_id``, which is no ancestor of the end.
    """
    fallback = _without_log(history, after_snapshot_id, up_to_snapshot_id)
    # If nothing is known, ``was_head`` says if the branch led there; for ``main``, which has a log, the caller knows.
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
    """True if a branch is known to have moved to an older snapshot; False for V1 tables, which number none."""
    # The changes are then the difference of the two states, though no common ancestor shows.
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
