"""The steps of a range of snapshots."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.commit_groups import commit_groups as group_commits
from icefloe.iceberg.history import MAIN, History, NotAnAncestorError, UnknownSnapshotError, is_replace
from icefloe.iceberg.manifests import ManifestReader
from icefloe.iceberg.metadata_log import MetadataLog
from icefloe.iceberg.origin import Origin, origin_of
from icefloe.iceberg.replace_check import check_replace
from icefloe.iceberg.rollback import branch_log, landing_after
from icefloe.iceberg.step import Step, StepKind

__all__ = ["SnapshotRange", "plan_range"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRange:
    """The steps between two snapshots of a branch.

    Attributes:
        after_snapshot_id: exclusive; None: from the start of the history, or an initial load.
        up_to_snapshot_id: inclusive; None: the branch has no snapshot.
        steps: by ordinal; empty when there is nothing to do.
        skipped_replace_snapshots: how many ``replace`` snapshots were skipped.
        warnings: one sentence each.
    """

    after_snapshot_id: int | None
    up_to_snapshot_id: int | None
    steps: tuple[Step, ...] = ()
    skipped_replace_snapshots: int = 0
    warnings: tuple[str, ...] = ()


def plan_range(
    table: Table,
    *,
    branch: str = MAIN,
    after_snapshot_id: int | None = None,
    up_to_snapshot_id: int | None = None,
    load: Literal["changes", "full", "from_earliest"] = "changes",
    on_rollback: Literal["compensate", "fail"] = "fail",
    commit_groups: Literal["fuse", "split"] = "fuse",
) -> SnapshotRange:
    """The steps that lead from one snapshot of a branch to another; reads metadata only.

    Args:
        table: as loaded; its metadata is what counts.
        branch: a branch, not a tag.
        after_snapshot_id: exclusive; None: from the start of the table's history. It may have expired if it is still
            the parent of a snapshot that is there.
        up_to_snapshot_id: inclusive; None: the head of the branch.
        load: ``changes``: the changes of the range. ``full``: one INITIAL step with the state at the end.
            ``from_earliest``: the changes since the oldest snapshot still there, its state as an INITIAL step before
            them unless history starts with it. The last two need ``after_snapshot_id`` to be None.
        on_rollback: what to do when the branch left the start behind (rollback, another snapshot set current, table
            replaced): ``compensate`` by a STATES step to where it landed, followed by the commits since; or ``fail``.
        commit_groups: ``fuse`` the snapshots of one commit, or ``split``: a step for each.

    Raises:
        UnknownBranchError: no such branch.
        UnknownSnapshotError: the end is no snapshot of the branch.
        NotAnAncestorError: the start is no ancestor of the end, and no rollback to compensate.
        ExpiredHistoryError: the range reaches behind the oldest snapshot still there.
        TerminalError: damaged metadata, or a ``replace`` that changed the number of rows.
        TransientError: the store did not answer.
    """
    if load != "changes" and after_snapshot_id is not None:
        raise ValueError(f"load={load!r} starts without a snapshot, found after_snapshot_id={after_snapshot_id}")
    planner = _RangePlanner(table, branch=branch, commit_groups=commit_groups)
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
    """Collects the steps of one range."""

    def __init__(self, table: Table, *, branch: str, commit_groups: Literal["fuse", "split"]) -> None:
        self._history = History.of(table)
        self._reader = ManifestReader(table)
        self._log = MetadataLog(table)
        self._branch = branch
        self._commit_groups = commit_groups
        self._steps: list[Step] = []
        self._warnings: list[str] = []
        self._skipped = 0

    def resolve_end(self, up_to_snapshot_id: int | None) -> Snapshot | None:
        head = self._history.head(self._branch)
        if up_to_snapshot_id is None:
            return head
        on_branch = [] if head is None else self._history.lineage(head.snapshot_id)
        for snapshot in on_branch:
            if snapshot.snapshot_id == up_to_snapshot_id:
                return snapshot
        self._history.snapshot(up_to_snapshot_id)
        raise UnknownSnapshotError(
            f"snapshot {up_to_snapshot_id} of table {self._history.table_name} is not in the history of branch "
            f"{self._branch!r}: a range ends at the branch's head or one of its ancestors",
            table=self._history.table_name, snapshot_id=up_to_snapshot_id, branch=self._branch,
        )  # fmt: skip

    def without_snapshots(self, after_snapshot_id: int | None) -> SnapshotRange:
        if after_snapshot_id is None:
            return SnapshotRange(after_snapshot_id=None, up_to_snapshot_id=None)
        raise self._not_an_ancestor(after_snapshot_id, None, "the branch has no snapshot any more")

    def add_initial(self, snapshot: Snapshot) -> None:
        self._add(StepKind.INITIAL, [snapshot], start_snapshot_id=None)

    def add_from_start(self, up_to: Snapshot) -> None:
        lineage = self._history.lineage(up_to.snapshot_id)
        origin = origin_of(lineage[-1], self._reader)
        if origin is Origin.GAP:
            raise self._history.expired(None, lineage[-1])
        self._add_from_oldest(lineage, origin)

    def add_from_earliest(self, up_to: Snapshot) -> None:
        lineage = self._history.lineage(up_to.snapshot_id)
        self._add_from_oldest(lineage, origin_of(lineage[-1], self._reader))

    def add_changes(self, after_snapshot_id: int, up_to: Snapshot, *, on_rollback: str) -> None:
        lineage = self._history.lineage(up_to.snapshot_id)
        if after_snapshot_id == up_to.snapshot_id:
            return
        since = _since(lineage, after_snapshot_id)
        if since is None:
            since = self._compensate(after_snapshot_id, lineage, on_rollback=on_rollback)
        self._add_commits(since)

    def finish(self, after_snapshot_id: int | None, up_to: Snapshot) -> SnapshotRange:
        return SnapshotRange(
            after_snapshot_id=after_snapshot_id,
            up_to_snapshot_id=up_to.snapshot_id,
            steps=tuple(self._steps),
            skipped_replace_snapshots=self._skipped,
            warnings=tuple(self._warnings),
        )

    def _add_from_oldest(self, lineage: Sequence[Snapshot], origin: Origin) -> None:
        oldest_first = lineage[::-1]
        if origin is Origin.ROOT:
            self._add_commits(oldest_first)
        else:
            self.add_initial(oldest_first[0])
            self._add_commits(oldest_first[1:])

    def _compensate(self, after_snapshot_id: int, lineage: Sequence[Snapshot], *, on_rollback: str) -> list[Snapshot]:
        """Add the STATES step of a rollback; returns what was committed since, oldest first."""
        up_to, oldest = lineage[0], lineage[-1]
        if after_snapshot_id not in self._history.snapshots:
            raise self._history.expired(after_snapshot_id, oldest)
        common_id = self._history.nearest_common_ancestor(up_to.snapshot_id, after_snapshot_id)
        if common_id is None and origin_of(oldest, self._reader) is Origin.GAP:
            raise self._history.expired(after_snapshot_id, oldest)
        moves = branch_log(self._history, self._log, branch=self._branch, after_snapshot_id=after_snapshot_id)
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
        snapshot = self._history.snapshot(landing.snapshot_id)
        self._add(StepKind.STATES, [snapshot], start_snapshot_id=after_snapshot_id, timestamp_ms=landing.timestamp_ms)
        return _since(lineage, landing.snapshot_id) or []

    def _add_commits(self, snapshots: Sequence[Snapshot]) -> None:
        """Add the steps of a lineage, oldest first."""
        for snapshot in snapshots:
            if is_replace(snapshot):
                self._skipped += 1
                warning = check_replace(snapshot, self._history, self._reader)
                self._warnings += [warning] if warning else []
        groups = group_commits(snapshots, self._log, commit_groups=self._commit_groups)
        self._warnings += groups.warnings(self._history.table_name)
        for group in groups.groups:
            changing = [snapshot for snapshot in group if not is_replace(snapshot)]
            if changing:
                start_id = changing[0].parent_snapshot_id
                self._add(StepKind.COMMIT, changing, start_snapshot_id=self._if_there(start_id))

    def _add(
        self,
        kind: StepKind,
        snapshots: Sequence[Snapshot],
        *,
        start_snapshot_id: int | None,
        timestamp_ms: int | None = None,
    ) -> None:
        last = snapshots[-1]
        step = Step(
            change_ordinal=len(self._steps),
            kind=kind,
            start_snapshot_id=start_snapshot_id,
            end_snapshot_id=last.snapshot_id,
            snapshot_ids=tuple(snapshot.snapshot_id for snapshot in snapshots),
            commit_snapshot_id=last.snapshot_id,
            commit_timestamp_us=1000 * (last.timestamp_ms if timestamp_ms is None else timestamp_ms),
        )
        self._steps.append(step)

    def _if_there(self, snapshot_id: int | None) -> int | None:
        return snapshot_id if snapshot_id in self._history.snapshots else None

    def _not_an_ancestor(self, after_id: int, up_to: Snapshot | None, reason: str) -> NotAnAncestorError:
        end = f"snapshot {up_to.snapshot_id}" if up_to else "the head"
        return NotAnAncestorError(
            f"snapshot {after_id} is not an ancestor of {end} on branch {self._branch!r} of table "
            f"{self._history.table_name}: {reason}",
            table=self._history.table_name, after_snapshot_id=after_id,
            up_to_snapshot_id=up_to.snapshot_id if up_to else None, branch=self._branch,
        )  # fmt: skip


def _since(lineage: Sequence[Snapshot], after_snapshot_id: int) -> list[Snapshot] | None:
    """The part of a lineage (newest first) after a snapshot, oldest first; None when the snapshot is not in it."""
    newer: list[Snapshot] = []
    for snapshot in lineage:
        if snapshot.snapshot_id == after_snapshot_id:
            return newer[::-1]
        newer.append(snapshot)
        if snapshot.parent_snapshot_id == after_snapshot_id:
            return newer[::-1]
    return None
