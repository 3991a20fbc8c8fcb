"""The passage of a branch through a range: every snapshot, found once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.history import (
    MAIN,
    History,
    NotAnAncestorError,
    commits_after,
    is_replace,
)
from icefloe.iceberg.history.loaded_table import (
    LoadedTable,
    SnapshotOrigin,
    origin_of,
    require_removed_files,
)
from icefloe.iceberg.schemas.table_schema import require_comparable_states
from icefloe.iceberg.table import ancestry
from icefloe.pipeline.settings import RollbackOption

__all__ = ["Landing", "Passage"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The way of a branch or tag through a range: a landing at most, then commits.

    Attributes:
        after_snapshot_id: exclusive; None: from the start of the history, or a load.
        up_to_snapshot_id: inclusive; None: the branch has no snapshot.
        landing: reached before the commits; None if they go on from ``after_snapshot_id``.
        before: the snapshot before the first commit; None if there was none, or it expired.
        commits: oldest first, each the parent of the next.
    """

    after_snapshot_id: int | None
    up_to_snapshot_id: int | None
    landing: Landing | None = None
    before: Snapshot | None = None
    commits: tuple[Snapshot, ...] = ()

    @staticmethod
    def find(
        table: LoadedTable,
        *,
        branch: str = MAIN,
        after_snapshot_id: int | None = None,
        up_to_snapshot_id: int | None = None,
        was_head: bool = False,
        load: Literal["changes", "full", "from_earliest"] = "changes",
        on_rollback: RollbackOption = "fail",
    ) -> "Passage":
        """The snapshots that lead from one snapshot of a branch to another.

        Reads manifests if history starts inside the range.

        Args:
            branch: a branch, or a tag, which means the history of its snapshot.
            after_snapshot_id: exclusive; None: from the start of the history. It may have expired if a child exists,
                and the files that this removed.
            up_to_snapshot_id: inclusive; None: the head of the branch.
            was_head: the caller knows that the end was the branch's head once.
            load: ``changes``: the commits of the range. ``full``: a landing at the end. ``from_earliest``: the commits
                since the oldest snapshot, a landing unless history starts with it. The last two have no start.
            on_rollback: if the branch left the start behind, ``compensate``: a landing on the newest snapshot that both
                share, then the commits since; ``fail``: raise.

        Raises:
            NotAnAncestorError: the start is no ancestor of the end, and no rollback is compensated.
            ExpiredHistoryError: the range starts before the oldest existing snapshot.
        """
        if load != "changes" and after_snapshot_id is not None:
            raise ValueError(f"load={load!r} starts without a snapshot, found after_snapshot_id={after_snapshot_id}")
        finder = _Finder(table=table, branch=branch)
        end = (
            table.history.snapshot(up_to_snapshot_id)
            if was_head and up_to_snapshot_id
            else finder.end(up_to_snapshot_id)
        )
        if end is None:
            if after_snapshot_id is None:
                return Passage(after_snapshot_id=None, up_to_snapshot_id=None)
            reason = "the branch has no snapshot any more; icefloe delivers the difference after the next commit"
            raise NotAnAncestorError.on_branch(branch, table.name, after_snapshot_id, None, reason)
        if load == "full":
            return Passage(after_snapshot_id=None, up_to_snapshot_id=end.snapshot_id, landing=Landing.of_load(end))
        lineage = table.history.lineage(end.snapshot_id)
        if after_snapshot_id is None:
            return finder.from_oldest(lineage, needs_start=load == "changes")
        may_end_before = was_head or end == table.history.head(branch)
        return finder.since(after_snapshot_id, lineage, on_rollback=on_rollback, may_end_before=may_end_before)

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
                before=history.snapshots[after_snapshot_id],
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

    @property
    def parents(self) -> Mapping[int, Snapshot | None]:
        """The snapshot before each commit, by the commit's id; None if there is none any more."""
        before = (self.before, *self.commits)
        return {snapshot.snapshot_id: parent for snapshot, parent in zip(self.commits, before, strict=False)}

    def up_to_first_of(self, snapshot_ids: Collection[int]) -> "Passage":
        """The passage up to the first of some snapshots; all of it without one."""
        if self.landing is not None and self.landing.snapshot.snapshot_id in snapshot_ids:
            return replace(self, up_to_snapshot_id=self.landing.snapshot.snapshot_id, commits=())
        for number, snapshot in enumerate(self.commits, 1):
            if snapshot.snapshot_id in snapshot_ids:
                return replace(self, up_to_snapshot_id=snapshot.snapshot_id, commits=self.commits[:number])
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finder:
    table: LoadedTable
    branch: str

    def end(self, up_to_snapshot_id: int | None) -> Snapshot | None:
        """None if the branch has no snapshot."""
        head = self.table.history.head(self.branch)
        if up_to_snapshot_id is None:
            return head
        for snapshot in [] if head is None else self.table.history.lineage(head.snapshot_id):
            if snapshot.snapshot_id == up_to_snapshot_id:
                return snapshot
        end = self.table.history.snapshot(up_to_snapshot_id)
        # The branch may have led there before it was rolled back or set to another snapshot.
        moves = self.table.history.log if self.branch == MAIN else ()
        if any(self.table.history.is_ancestor(up_to_snapshot_id, move.snapshot_id) for move in moves):
            return end
        raise NotAnAncestorError(
            f"snapshot {up_to_snapshot_id} of table {self.table.name} is not in the history of branch "
            f"{self.branch!r}: end the range at a present or former head of the branch, or at an ancestor of one"
        )

    def from_oldest(self, lineage: Sequence[Snapshot], *, needs_start: bool) -> Passage:
        """The oldest state is a landing, unless history starts with it."""
        oldest = lineage[-1]
        origin = origin_of(oldest, self.table.manifests)
        if needs_start and origin is SnapshotOrigin.GAP:
            raise self.table.history.expired(None, oldest)
        is_landing = origin is not SnapshotOrigin.ROOT
        commits = tuple(reversed(lineage))
        return Passage(
            after_snapshot_id=None,
            up_to_snapshot_id=lineage[0].snapshot_id,
            landing=Landing.of_load(oldest) if is_landing else None,
            before=oldest if is_landing else None,
            commits=commits[1:] if is_landing else commits,
        )

    def since(
        self, after_snapshot_id: int, lineage: Sequence[Snapshot], *, on_rollback: RollbackOption, may_end_before: bool
    ) -> Passage:
        landing = None
        before = self.table.history.snapshots.get(after_snapshot_id)
        commits = commits_after(lineage, after_snapshot_id)
        if commits is None:
            # The cursor is at 3. The branch was rolled back to 1, and 4 and 5 were committed:
            #   1 - 2 - 3        a landing on 1, which takes back 2 and 3,
            #    `- 4 - 5        then the commits 4 and 5
            landing = landing_of_rollback(
                self.table, lineage, branch=self.branch, after_snapshot_id=after_snapshot_id, on_rollback=on_rollback,
                may_end_before=may_end_before,
            )  # fmt: skip
            before = landing.snapshot
            commits = commits_after(lineage, before.snapshot_id) or ()
        elif before is None and not is_replace(commits[0]):
            require_removed_files(commits[0], self.table.history, self.table.manifests, self.table.io)
        return Passage(
            after_snapshot_id=after_snapshot_id,
            up_to_snapshot_id=lineage[0].snapshot_id,
            landing=landing,
            before=before,
            commits=commits,
        )


def landing_of_rollback(
    table: LoadedTable,
    lineage: Sequence[Snapshot],
    *,
    branch: str,
    after_snapshot_id: int,
    on_rollback: RollbackOption,
    may_end_before: bool,
) -> Landing:
    """The state to which a branch went back when it left a snapshot: the newest one that both share.

    Args:
        lineage: of the end, newest first; the snapshot that was left is not in it.
        may_end_before: the end may be an ancestor of the snapshot that was left.
    """
    history, up_to, oldest = table.history, lineage[0], lineage[-1]
    left = history.snapshots.get(after_snapshot_id)
    if left is None:
        raise history.expired(after_snapshot_id, oldest)
    passed = {snapshot.snapshot_id for snapshot in ancestry(history.snapshots, after_snapshot_id)}
    shared = next((snapshot for snapshot in lineage if snapshot.snapshot_id in passed), None)
    # Snapshots between both may have expired. An older one than the one that was left still shows that the branch went
    # back: its children were committed after it. V1 tables number no snapshots.
    older = (snapshot for snapshot in lineage if (snapshot.sequence_number or 0) < (left.sequence_number or 0))
    landed = shared or next(older, None)
    if landed is None and origin_of(oldest, table.manifests) is SnapshotOrigin.GAP:
        raise history.expired(after_snapshot_id, oldest)
    # Otherwise the table was replaced, and the new one begins with its oldest snapshot.
    landed = landed or oldest
    if landed == up_to and not may_end_before:
        reason = "it is newer; begin the range at an ancestor of its end"
        raise NotAnAncestorError.on_branch(branch, table.name, after_snapshot_id, up_to.snapshot_id, reason)
    if on_rollback == "fail":
        reason = f"the branch was moved to snapshot {landed.snapshot_id}"
        raise NotAnAncestorError.on_branch(branch, table.name, after_snapshot_id, up_to.snapshot_id, reason)
    require_comparable_states(table.metadata, after_snapshot_id, landed.snapshot_id, table=table.name)
    return Landing(
        snapshot=landed,
        left_snapshot_id=after_snapshot_id,
        timestamp_ms=_landed_at_ms(history, lineage, landed, left, branch=branch),
    )


def _landed_at_ms(
    history: History, lineage: Sequence[Snapshot], landed: Snapshot, left: Snapshot, *, branch: str
) -> int:
    """As the log of ``main`` says; otherwise the time of the next commit, or of the table's last change."""
    moves = history.log if branch == MAIN else ()
    times = [move.timestamp_ms for move in moves if move.snapshot_id == landed.snapshot_id]
    if times and times[-1] >= left.timestamp_ms:
        return times[-1]
    children = (each.timestamp_ms for each in lineage if each.parent_snapshot_id == landed.snapshot_id)
    return next(children, history.last_updated_ms)
