"""The steps of a range: its commits, numbered, as many as one batch may have."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

from pyiceberg.table.snapshots import Snapshot

from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import MAIN, is_replace
from icefloe.iceberg.history.loaded_table import LoadedTable, MetadataLog
from icefloe.iceberg.history.passage import Landing, Passage, find_passage
from icefloe.iceberg.manifests.manifest_entries import EntryStatus, ManifestFile
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.scan.changed_files import FileTerm
from icefloe.iceberg.scan.commit_groups import CommitGroups
from icefloe.iceberg.scan.commit_groups import commit_groups as group_commits
from icefloe.iceberg.scan.data_manifests import DataManifests
from icefloe.iceberg.scan.delete_file_index import DeleteFileIndex
from icefloe.iceberg.scan.live_deletes import ListedStates, LiveDeletes
from icefloe.iceberg.step import Step, StepKind
from icefloe.pipeline.option_values import CommitGroupsOption, RollbackOption
from icefloe.storage.requests import map_parallel

__all__ = ["SnapshotRange", "plan_range"]


def check_replaces(passage: Passage, snapshots: Sequence[Snapshot], table: LoadedTable) -> list[str]:
    """Check ``replace`` snapshots; a warning for each that cannot be checked."""
    before = passage.parents
    replaces = [snapshot for snapshot in snapshots if is_replace(snapshot)]
    parents = {each.snapshot_id: parent for each in replaces if (parent := before[each.snapshot_id]) is not None}
    states = {state.snapshot_id: state for state in (*replaces, *parents.values())}
    # All manifest lists at once. Without delete files, their counts are all that a check needs.
    lists = dict(zip(states, map_parallel(table.manifests.manifests, states.values()), strict=True))
    listed = ListedStates(lists, {each: parent.snapshot_id for each, parent in parents.items()})
    checked = [check_replace(each.snapshot_id, listed, table.manifests, table=table.name) for each in replaces]
    return [warning for warning in checked if warning is not None]


def check_replace(snapshot_id: int, states: ListedStates, reader: ManifestReader, *, table: str) -> str | None:
    """Compare the live rows before and after; a warning if they are not known exactly.

    Nothing is read if there are no delete files and the manifest lists have equal counts. Otherwise the replaced files'
    rows are counted, which only deletion vectors allow.
    """
    parent_id = states.parents.get(snapshot_id)
    before = None if parent_id is None else _records(states.manifests[parent_id])
    if before is not None and before == _records(states.manifests[snapshot_id]):
        return None
    step = _step(snapshot_id)
    deletes = LiveDeletes.read([step], states, reader)
    terms = list(DataManifests(reader, deletes).read(step).terms(deletes.index).each())
    rows = [(term, _live_rows(term, deletes.index)) for term in terms]
    is_known = all(count is not None for _, count in rows)
    # A file that left without a DELETED entry was not replaced by any other.
    added_paths = {term.entry.data_file.path for term in terms if term.weight > 0}
    is_lost = any(
        term.entry.status is not EntryStatus.DELETED and term.entry.data_file.path not in added_paths for term in terms
    )
    removed, added = (
        sum(max(0, sign * term.weight) * (_all_rows(term) if count is None else count) for term, count in rows)
        for sign in (-1, 1)
    )
    if removed != added and (is_known or is_lost):
        raise TerminalError(
            f"replace snapshot {snapshot_id} of table {table} must keep the {removed} rows of the files that it "
            f"replaced, but there are {added} after it: its writer changed rows under the name of a compaction; load "
            "the table again"
        )
    if is_known:
        return None
    return (
        f"replace snapshot {snapshot_id} of table {table} was skipped, and it could not be "
        "checked that it kept every row: position or equality deletes are in force on files that it replaced"
    )


def _records(manifests: Iterable[ManifestFile]) -> int | None:
    """None if it has delete files or no counts."""
    listed = list(manifests)
    counts = [manifest.live_rows for manifest in listed]
    is_exact = None not in counts and not any(manifest.holds_deletes for manifest in listed)
    return sum(count for count in counts if count is not None) if is_exact else None


def _step(snapshot_id: int) -> Step:
    """As if it were not a ``replace``."""
    return Step(
        change_ordinal=0,
        kind=StepKind.COMMIT,
        start_snapshot_id=None,
        end_snapshot_id=snapshot_id,
        snapshot_ids=(snapshot_id,),
        commit_snapshot_id=snapshot_id,
        commit_timestamp_us=0,
    )


def _all_rows(term: FileTerm) -> int:
    return term.entry.data_file.record_count


def _live_rows(term: FileTerm, delete_files: DeleteFileIndex) -> int | None:
    """None if anything other than one deletion vector deletes rows."""
    if not term.delete_files:
        return _all_rows(term)
    [first, *others] = (delete_files[number] for number in term.delete_files)
    is_known = first.is_deletion_vector and not others
    return _all_rows(term) - first.record_count if is_known else None


_SNAPSHOTS_PER_COMMIT: Final = 4
"""The most snapshots that one call of PyIceberg makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRange:
    """The steps between two snapshots of a branch.

    Attributes:
        after_snapshot_id: exclusive; None: from the start of the history, or an initial load.
        up_to_snapshot_id: inclusive; None: the branch has no snapshot.
        is_reload: the table is loaded again, because history that its changes need expired.
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
    """The steps from one snapshot of a branch to another; reads metadata only."""
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
    """The steps of a passage, at most ``max_steps``, never half a commit.

    Args:
        commit_groups: ``fuse`` the snapshots of one commit, or ``split``: a step for each.
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
    """At most ``room`` steps; finding all commits would read more files."""
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
    """All its rows, or the difference to the state that was left."""
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
    """Snapshots that change rows, and the state before, unless expired."""
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
