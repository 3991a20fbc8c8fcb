"""The steps of a range of snapshots."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.first_snapshot import Origin, origin_of
from icefloe.iceberg.history.history import MAIN, NotAnAncestorError, UnknownSnapshotError, is_replace
from icefloe.iceberg.history.rollback import branch_log, landing_after
from icefloe.iceberg.step import Step
from icefloe.iceberg.steps.comparable_states import require_comparable_states
from icefloe.iceberg.steps.expired_start import require_removed_files
from icefloe.iceberg.steps.step_collector import StepCollector

__all__ = ["SnapshotRange", "plan_range"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRange:
    """The steps between two snapshots of a branch.

    Attributes:
        after_snapshot_id: exclusive; None: from the start of the history, or an initial load.
        up_to_snapshot_id: inclusive; None: the branch has no snapshot.
        steps: by ordinal; empty if there is nothing to do.
        skipped_replace_snapshots: number of ``replace`` snapshots that were skipped.
        warnings: one sentence each.
        is_reload: the table is loaded again, because history that its changes need has expired.
    """

    after_snapshot_id: int | None
    up_to_snapshot_id: int | None
    steps: tuple[Step, ...] = ()
    skipped_replace_snapshots: int = 0
    warnings: tuple[str, ...] = ()
    is_reload: bool = False


def plan_range(
    table: Table,
    *,
    branch: str = MAIN,
    after_snapshot_id: int | None = None,
    up_to_snapshot_id: int | None = None,
    load: Literal["changes", "full", "from_earliest"] = "changes",
    on_rollback: Literal["compensate", "fail"] = "fail",
    commit_groups: Literal["fuse", "split"] = "fuse",
    max_steps: int | None = None,
) -> SnapshotRange:
    """The steps that lead from one snapshot of a branch to another; reads metadata only.

    Args:
        table: as loaded; only this version of its metadata counts.
        branch: a branch, or a tag, which means the history of the snapshot that it points to.
        after_snapshot_id: exclusive; None: from the start of the table's history. It may have expired if it is still
            the parent of an existing snapshot, and the files that this snapshot removed still exist.
        up_to_snapshot_id: inclusive; None: the head of the branch.
        load: ``changes``: the changes of the range. ``full``: one INITIAL step with the state at the end.
            ``from_earliest``: the changes since the oldest existing snapshot. Its state comes first as an INITIAL step,
            unless history starts with it. The last two need ``after_snapshot_id`` to be None.
        on_rollback: what to do if the branch left the start behind (rollback, another snapshot set current, table
            replaced). ``compensate``: a STATES step to the snapshot that became current, then the commits since.
            ``fail``: raise.
        commit_groups: ``fuse`` the snapshots of one commit, or ``split``: a step for each.
        max_steps: the range ends before the step that would be one too many; None: no limit.

    Raises:
        UnknownBranchError: there is no such branch.
        UnknownSnapshotError: the end is not a snapshot of the branch.
        NotAnAncestorError: the start is not an ancestor of the end, and there is no rollback to compensate.
        ExpiredHistoryError: the range starts before the oldest existing snapshot.
        TerminalError: the metadata is damaged, a ``replace`` changed the number of rows, or the table was replaced by
            one whose columns have other types.
        TransientError: the store did not answer.
    """
    if load != "changes" and after_snapshot_id is not None:
        raise ValueError(f"load={load!r} starts without a snapshot, found after_snapshot_id={after_snapshot_id}")
    planner = _RangePlanner(table, branch=branch, commit_groups=commit_groups, max_steps=max_steps)
    up_to = planner.resolve_end(up_to_snapshot_id)
    if up_to is None:
        return planner.without_snapshots(after_snapshot_id)
    if load == "full":
        planner.add_initial(up_to)
    elif load == "from_earliest":
        planner.add_from_earliest(up_to)
    elif after_snapshot_id is None:
        planner.add_from_start(up_to)
    else:
        planner.add_changes(after_snapshot_id, up_to, on_rollback=on_rollback)
    return planner.finish(after_snapshot_id, up_to)


class _RangePlanner:
    """Finds the first and the last step of one range."""

    def __init__(
        self, table: Table, *, branch: str, commit_groups: Literal["fuse", "split"], max_steps: int | None
    ) -> None:
        self._collector = StepCollector(table, commit_groups=commit_groups, max_steps=max_steps)
        self._history = self._collector.history
        self._table = table
        self._branch = branch

    def resolve_end(self, up_to_snapshot_id: int | None) -> Snapshot | None:
        head = self._history.head(self._branch)
        if up_to_snapshot_id is None:
            return head
        on_branch = [] if head is None else self._history.lineage(head.snapshot_id)
        for snapshot in on_branch:
            if snapshot.snapshot_id == up_to_snapshot_id:
                return snapshot
        end = self._history.snapshot(up_to_snapshot_id)
        if self._was_on_branch(up_to_snapshot_id):
            return end
        raise UnknownSnapshotError(
            f"snapshot {up_to_snapshot_id} of table {self._history.table_name} is not in the history of branch "
            f"{self._branch!r}: end the range at a present or former head of the branch, or at an ancestor of one",
            table=self._history.table_name, snapshot_id=up_to_snapshot_id, branch=self._branch,
        )  # fmt: skip

    def _was_on_branch(self, snapshot_id: int) -> bool:
        """True if the branch led to a snapshot before it was rolled back or set to another one."""
        moves = branch_log(self._history, self._collector.log, branch=self._branch, after_snapshot_id=snapshot_id)
        return any(self._history.is_ancestor(snapshot_id, move.snapshot_id) for move in moves)

    def without_snapshots(self, after_snapshot_id: int | None) -> SnapshotRange:
        if after_snapshot_id is None:
            return SnapshotRange(after_snapshot_id=None, up_to_snapshot_id=None)
        raise self._not_an_ancestor(
            after_snapshot_id,
            None,
            "the branch has no snapshot any more; icefloe delivers the difference after the next commit",
        )

    def add_initial(self, snapshot: Snapshot) -> None:
        self._collector.add_state(snapshot)

    def add_from_start(self, up_to: Snapshot) -> None:
        lineage = self._history.lineage(up_to.snapshot_id)
        origin = self._origin(lineage)
        if origin is Origin.GAP:
            raise self._history.expired(None, lineage[-1])
        self._add_from_oldest(lineage, origin)

    def add_from_earliest(self, up_to: Snapshot) -> None:
        lineage = self._history.lineage(up_to.snapshot_id)
        self._add_from_oldest(lineage, self._origin(lineage))

    def add_changes(self, after_snapshot_id: int, up_to: Snapshot, *, on_rollback: str) -> None:
        lineage = self._history.lineage(up_to.snapshot_id)
        if after_snapshot_id == up_to.snapshot_id:
            return
        since = _since(lineage, after_snapshot_id)
        if since is None:
            since = self._compensate(after_snapshot_id, lineage, on_rollback=on_rollback)
        elif after_snapshot_id not in self._history.snapshots and not is_replace(since[0]):
            require_removed_files(since[0], self._history, self._collector.reader, self._table.io)
        self._collector.add_commits(since)

    def finish(self, after_snapshot_id: int | None, up_to: Snapshot) -> SnapshotRange:
        collected = self._collector
        return SnapshotRange(
            after_snapshot_id=after_snapshot_id,
            up_to_snapshot_id=collected.last_snapshot_id or up_to.snapshot_id,
            steps=tuple(collected.steps),
            skipped_replace_snapshots=collected.skipped_replace_snapshots,
            warnings=tuple(collected.warnings),
        )

    def _origin(self, lineage: Sequence[Snapshot]) -> Origin:
        return origin_of(lineage[-1], self._collector.reader)

    def _add_from_oldest(self, lineage: Sequence[Snapshot], origin: Origin) -> None:
        oldest_first = lineage[::-1]
        if origin is Origin.ROOT:
            self._collector.add_commits(oldest_first)
        else:
            self.add_initial(oldest_first[0])
            self._collector.add_commits(oldest_first[1:])

    def _compensate(self, after_snapshot_id: int, lineage: Sequence[Snapshot], *, on_rollback: str) -> list[Snapshot]:
        """Add the STATES step of a rollback; returns the snapshots that were committed since, oldest first."""
        # The cursor is at 3. The branch was rolled back to 1, and 4 and 5 were committed:
        #   1 - 2 - 3        one STATES step from 3 to 1, which takes back 2 and 3,
        #    `- 4 - 5        then the commits 4 and 5
        up_to, oldest = lineage[0], lineage[-1]
        if after_snapshot_id not in self._history.snapshots:
            raise self._history.expired(after_snapshot_id, oldest)
        common_id = self._history.nearest_common_ancestor(up_to.snapshot_id, after_snapshot_id)
        if common_id is None and self._origin(lineage) is Origin.GAP:
            raise self._history.expired(after_snapshot_id, oldest)
        moves = branch_log(self._history, self._collector.log, branch=self._branch, after_snapshot_id=after_snapshot_id)
        landing = landing_after(
            self._history, moves, branch=self._branch, after_snapshot_id=after_snapshot_id,
            up_to_snapshot_id=up_to.snapshot_id,
        )  # fmt: skip
        if landing is None:
            raise self._not_an_ancestor(after_snapshot_id, up_to, "a range follows the history of one branch")
        if on_rollback == "fail":
            raise self._not_an_ancestor(
                after_snapshot_id, up_to, f"the branch was moved to snapshot {landing.snapshot_id}"
            )
        require_comparable_states(self._table, after_snapshot_id, landing.snapshot_id)
        self._collector.add_move(
            self._history.snapshot(landing.snapshot_id),
            start_snapshot_id=after_snapshot_id,
            timestamp_ms=landing.timestamp_ms,
        )
        return _since(lineage, landing.snapshot_id) or []

    def _not_an_ancestor(self, after_id: int, up_to: Snapshot | None, reason: str) -> NotAnAncestorError:
        end = f"snapshot {up_to.snapshot_id}" if up_to else "the head"
        return NotAnAncestorError(
            f"snapshot {after_id} is not an ancestor of {end} on branch {self._branch!r} of table "
            f"{self._history.table_name}: {reason}",
            table=self._history.table_name, after_snapshot_id=after_id,
            up_to_snapshot_id=up_to.snapshot_id if up_to else None, branch=self._branch,
        )  # fmt: skip


def _since(lineage: Sequence[Snapshot], after_snapshot_id: int) -> list[Snapshot] | None:
    """The part of a lineage (newest first) after a snapshot, oldest first; None if the snapshot is not in it."""
    newer: list[Snapshot] = []
    for snapshot in lineage:
        if snapshot.snapshot_id == after_snapshot_id:
            return newer[::-1]
        newer.append(snapshot)
        # The start itself may have expired: its child still names it.
        if snapshot.parent_snapshot_id == after_snapshot_id:
            return newer[::-1]
    return None
