"""The steps of a range of snapshots: its commits in their order, numbered, as many as one batch may have."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.history import MAIN, is_replace
from icefloe.iceberg.history.landing import Landing
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.metadata_log import MetadataLog
from icefloe.iceberg.history.passage import Passage, find_passage
from icefloe.iceberg.step import Step, StepKind
from icefloe.iceberg.steps.commit_groups import CommitGroups
from icefloe.iceberg.steps.commit_groups import commit_groups as group_commits
from icefloe.iceberg.steps.replace_check import check_replaces
from icefloe.pipeline.option_values import CommitGroupsOption, RollbackOption

__all__ = ["SnapshotRange", "plan_range"]

_SNAPSHOTS_PER_COMMIT: Final = 4
"""The most snapshots that one call of PyIceberg makes."""


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
    table: LoadedTable,
    *,
    branch: str = MAIN,
    after_snapshot_id: int | None = None,
    up_to_snapshot_id: int | None = None,
    load: Literal["changes", "full", "from_earliest"] = "changes",
    on_rollback: RollbackOption = "fail",
    commit_groups: CommitGroupsOption = "fuse",
    max_steps: int | None = None,
) -> SnapshotRange:
    """The steps that lead from one snapshot of a branch to another; reads metadata only.

    Args:
        table: as loaded; only this version of its metadata counts.
        branch: see `find_passage`, also for the next four.
        after_snapshot_id: exclusive.
        up_to_snapshot_id: inclusive.
        load: the changes of the range, or a state first.
        on_rollback: what to do if the branch left the start behind.
        commit_groups: see `steps_of`.
        max_steps: the range ends before the step that would be one too many; None: no limit.

    Raises:
        TerminalError, TransientError: see `find_passage` and `steps_of`.
    """
    passage = find_passage(
        table,
        branch=branch,
        after_snapshot_id=after_snapshot_id,
        up_to_snapshot_id=up_to_snapshot_id,
        load=load,
        on_rollback=on_rollback,
    )
    return steps_of(passage, table, commit_groups=commit_groups, max_steps=max_steps)


def steps_of(
    passage: Passage,
    table: LoadedTable,
    *,
    commit_groups: CommitGroupsOption = "fuse",
    max_steps: int | None = None,
) -> SnapshotRange:
    """The steps of a passage; commits that do not fit into ``max_steps`` are left out, never half a commit.

    Args:
        passage: the snapshots of a range.
        table: as loaded.
        commit_groups: ``fuse`` the snapshots of one commit, or ``split``: a step for each.
        max_steps: the most steps, at least one; None: no limit.

    Raises:
        TerminalError: the metadata is damaged, or a ``replace`` changed the number of rows.
        TransientError: the store did not answer.
    """
    opening = [] if passage.landing is None else [passage.landing]
    room = None if max_steps is None else max_steps - len(opening)
    groups = _groups(passage.commits, table.log, commit_groups=commit_groups, room=room)
    passed = [snapshot for group in groups.groups for snapshot in group]
    parents = passage.parents
    warnings = check_replaces(passage, passed, table)
    steps = [_landing_step(landing) for landing in opening]
    for changing in filter(None, map(_changing, groups.groups)):
        steps.append(_commit_step(len(steps), changing, parents[changing[0].snapshot_id]))
    reached = [*(landing.snapshot for landing in opening), *passed]
    return SnapshotRange(
        after_snapshot_id=passage.after_snapshot_id,
        up_to_snapshot_id=reached[-1].snapshot_id if reached else passage.up_to_snapshot_id,
        steps=tuple(steps),
        skipped_replace_snapshots=sum(map(is_replace, passed)),
        warnings=(*warnings, *groups.warnings(table.name)),
    )


def _groups(
    snapshots: Sequence[Snapshot], log: MetadataLog, *, commit_groups: CommitGroupsOption, room: int | None
) -> CommitGroups:
    """The oldest commits, of which at most ``room`` are steps; finding all of them would read more files."""
    if room is None:
        return group_commits(snapshots, log, commit_groups=commit_groups)
    size = _SNAPSHOTS_PER_COMMIT * (room + 1)
    while True:
        groups = group_commits(snapshots[:size], log, commit_groups=commit_groups)
        # A commit that only replaces files is no step, so it fits in any case and takes the cursor along.
        steps_up_to = accumulate(bool(_changing(group)) for group in groups.groups)
        fitting = sum(count <= room for count in steps_up_to)
        # One that does not fit proves that the last one that fits is whole: others may be cut.
        if size >= len(snapshots) or fitting < len(groups.groups):
            return groups.first(fitting)
        size *= 2


def _landing_step(landing: Landing) -> Step:
    """A state as the first step: all its rows, or the difference to the state that was left."""
    return Step(
        change_ordinal=0,
        kind=StepKind.INITIAL if landing.left_snapshot_id is None else StepKind.STATES,
        start_snapshot_id=landing.left_snapshot_id,
        end_snapshot_id=landing.snapshot.snapshot_id,
        snapshot_ids=(landing.snapshot.snapshot_id,),
        commit_snapshot_id=landing.snapshot.snapshot_id,
        commit_timestamp_us=1000 * landing.timestamp_ms,
    )


def _commit_step(change_ordinal: int, changing: Sequence[Snapshot], parent: Snapshot | None) -> Step:
    """A commit: its snapshots that change rows, and the state before the first of them, unless it has expired."""
    last = changing[-1]
    return Step(
        change_ordinal=change_ordinal,
        kind=StepKind.COMMIT,
        start_snapshot_id=None if parent is None else parent.snapshot_id,
        end_snapshot_id=last.snapshot_id,
        snapshot_ids=tuple(snapshot.snapshot_id for snapshot in changing),
        commit_snapshot_id=last.snapshot_id,
        commit_timestamp_us=1000 * last.timestamp_ms,
    )


def _changing(group: Sequence[Snapshot]) -> list[Snapshot]:
    return [snapshot for snapshot in group if not is_replace(snapshot)]
