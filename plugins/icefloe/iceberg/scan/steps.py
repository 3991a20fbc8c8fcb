"""The steps of a range: its commits, numbered, as many as one batch may have; or the first files of a load."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Self

from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.history import ExpiredHistoryError, History, is_replace
from icefloe.iceberg.history.loaded_table import LoadedTable, MetadataLog
from icefloe.iceberg.history.passage import Landing, Passage, PublishedState
from icefloe.iceberg.history.summaries import file_bytes_bound
from icefloe.iceberg.scan.compared_states import ListedStates, check_replace
from icefloe.iceberg.scan.scan_tasks import ScanPlan
from icefloe.iceberg.step import LoadPart, Step, StepKind
from icefloe.pipeline.settings import CommitGroupsOption

__all__ = ["SnapshotRange"]


_SNAPSHOTS_PER_COMMIT: Final = 4
"""The most snapshots that one call of PyIceberg makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitGroups:
    """Snapshots in commits."""

    groups: tuple[tuple[Snapshot, ...], ...]  # oldest first; every snapshot is in one
    # Neighbours that were split, because nothing proves that one commit published them.
    unknown: tuple[tuple[Snapshot, Snapshot], ...] = ()

    def warnings(self, table_name: str) -> tuple[str, ...]:
        """One sentence if a boundary is unknown, otherwise none."""
        if not self.unknown:
            return ()
        first, last = self.unknown[0][0].snapshot_id, self.unknown[-1][1].snapshot_id
        sentence = (
            f"the metadata log of table {table_name} no longer says which snapshots were committed together between "
            f"{first} and {last} ({len(self.unknown)} boundaries): each of them is a step of its own"
        )
        return (sentence,)


def group_commits(
    snapshots: Sequence[Snapshot], log: MetadataLog, *, commit_groups: CommitGroupsOption, room: int | None = None
) -> CommitGroups:
    """The snapshots of a lineage, oldest first, by the commits that published them; at most ``room`` steps."""
    # Metadata files around the snapshots' times are read; none for a single snapshot or for ``split``.
    is_fused = commit_groups == "fuse" and len(snapshots) > 1
    if is_fused:
        needed = snapshots if room is None else snapshots[: _SNAPSHOTS_PER_COMMIT * (room + 1)]
        guesses = {_guess(snapshot, log) for snapshot in needed}
        log.prefetch(guesses | {guess - 1 for guess in guesses})
    groups: list[list[Snapshot]] = []
    unknown: list[tuple[Snapshot, Snapshot]] = []
    for number, snapshot in enumerate(snapshots):
        is_together = are_together(snapshots[number - 1], snapshot, log) if is_fused and number else False
        if is_together:
            groups[-1].append(snapshot)
            continue
        if not _fits(groups, room):
            break
        if is_together is None:
            # Two steps tell every change; one step might hide some.
            unknown.append((snapshots[number - 1], snapshot))
        groups.append([snapshot])
    if not _fits(groups, room):
        first = groups.pop()[0]
        unknown = [pair for pair in unknown if pair[1] is not first]
    return CommitGroups(groups=tuple(tuple(group) for group in groups), unknown=tuple(unknown))


def _fits(groups: Sequence[Sequence[Snapshot]], room: int | None) -> bool:
    # A commit that only replaces files is no step, so it fits in any case and takes the cursor along.
    return room is None or sum(bool(_changing(group)) for group in groups) <= room


def are_together(older: Snapshot, newer: Snapshot, log: MetadataLog) -> bool | None:
    """True if two snapshots appeared in one version of the metadata; None if no version proves it or the contrary."""
    #   version    3    4      5
    #   lists      -    a b    a b c        a and b are together, c is not
    # A snapshot is in every version since its first.
    first = _first_listing(newer, log)
    for index in range(first - 1, -1, -1):
        version = log.version(index)
        if version is not None:
            if newer.snapshot_id in version.snapshot_ids:
                return None
            if older.snapshot_id in version.snapshot_ids:
                return False
            return True if index == first - 1 else None
    return None


def _first_listing(snapshot: Snapshot, log: MetadataLog) -> int:
    """The first version that lists a snapshot, unless it or one after it is gone."""

    def lists(index: int) -> bool:
        version = log.version(index)
        return version is not None and snapshot.snapshot_id in version.snapshot_ids

    # With right clocks two versions show it. With wrong ones all of them are halved, again and again.
    guess = _guess(snapshot, log)
    if lists(guess) and not (guess and lists(guess - 1)):
        return guess
    return bisect_left(range(len(log) - 1), True, key=lists)


def _guess(snapshot: Snapshot, log: MetadataLog) -> int:
    return min(bisect_left(log.timestamps_ms, snapshot.timestamp_ms), len(log) - 1)


def check_replaces(snapshots: Sequence[Snapshot], table: LoadedTable) -> list[str]:
    """Check ``replace`` snapshots; a warning for each that cannot be checked."""
    commits = [Step.of(StepKind.COMMIT, [s.snapshot_id], timestamp_ms=0) for s in snapshots if is_replace(s)]
    # All manifest lists at once. Without delete files, their counts are all that a check needs.
    listed = ListedStates.of(commits, table)
    checked = [check_replace(commit, listed, table.manifests, table=table.name) for commit in commits]
    return [warning for warning in checked if warning is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRange:
    """The steps between two snapshots of a branch.

    Attributes:
        after_snapshot_id: exclusive; None: from the start of the history, or an initial load.
        up_to_snapshot_id: inclusive; None: the branch has no snapshot.
        is_reload: the table is loaded again, because history that its changes need expired.
        made_current_at_ms: of the end, by the log of the branch; None: the lineage is followed.
    """

    after_snapshot_id: int | None
    up_to_snapshot_id: int | None
    steps: tuple[Step, ...] = ()
    skipped_replace_snapshots: int = 0
    warnings: tuple[str, ...] = ()
    is_reload: bool = False
    made_current_at_ms: int | None = None

    @classmethod
    def of_passage(
        cls,
        passage: Passage,
        table: LoadedTable,
        *,
        commit_groups: CommitGroupsOption = "fuse",
        max_steps: int | None = None,
    ) -> Self:
        """The steps of a passage, at most ``max_steps``, never half a commit; reads metadata only.

        Args:
            commit_groups: ``fuse`` the snapshots of one commit, or ``split``: a step for each.
        """
        if passage.published is not None:
            return cls._of_published(passage, table, max_steps=max_steps)
        landing = passage.landing
        room = None if max_steps is None else max_steps - (landing is not None)
        groups = group_commits(passage.commits, table.log, commit_groups=commit_groups, room=room)
        passed = [snapshot for group in groups.groups for snapshot in group]
        warnings = check_replaces(passed, table)
        steps = [] if landing is None else [_landing_step(landing)]
        for changing in filter(None, map(_changing, groups.groups)):
            parent_id = changing[0].parent_snapshot_id
            commit = Step.of(
                StepKind.COMMIT,
                [snapshot.snapshot_id for snapshot in changing],
                timestamp_ms=changing[-1].timestamp_ms,
                change_ordinal=len(steps),
                start_snapshot_id=parent_id if parent_id in table.history.snapshots else None,
            )
            steps.append(commit)
        reached = passed if landing is None else [landing.snapshot, *passed]
        return cls(
            after_snapshot_id=passage.after_snapshot_id,
            up_to_snapshot_id=reached[-1].snapshot_id if reached else passage.up_to_snapshot_id,
            steps=tuple(steps),
            skipped_replace_snapshots=sum(map(is_replace, passed)),
            warnings=(*warnings, *groups.warnings(table.name)),
        )

    @classmethod
    def _of_published(cls, passage: Passage, table: LoadedTable, *, max_steps: int | None) -> Self:
        """A step for each state whose rows are others than before."""
        steps, passed, end = list[Step](), list[Snapshot](), None
        for state in passage.published or ():
            step = _published_step(state, change_ordinal=len(steps), history=table.history)
            if step is not None and len(steps) == max_steps:
                break
            steps += [] if step is None else [step]
            passed += state.commits or ()
            end = state
        return cls(
            after_snapshot_id=passage.after_snapshot_id,
            up_to_snapshot_id=passage.after_snapshot_id if end is None else end.snapshot.snapshot_id,
            steps=tuple(steps),
            skipped_replace_snapshots=sum(map(is_replace, passed)),
            warnings=tuple(check_replaces(passed, table)),
            made_current_at_ms=None if end is None else end.made_current_at_ms,
        )

    @classmethod
    def first_of(
        cls, passage: Passage, table: LoadedTable, *, commit_groups: CommitGroupsOption, max_steps: int, max_bytes: int
    ) -> Self:
        """The first steps that fit into one batch; at least one step, or one file of a load."""
        snapshots = cls.of_passage(passage, table, commit_groups=commit_groups, max_steps=max_steps)
        fitting = steps_within(table, snapshots.steps, max_bytes=max_bytes)
        if fitting < len(snapshots.steps):
            snapshots = cls.of_passage(passage, table, commit_groups=commit_groups, max_steps=fitting)
        # A load that has other steps after it in the range fits already.
        if len(snapshots.steps) == 1 and snapshots.steps[0].kind is StepKind.INITIAL:
            return cls._first_part(table, snapshots, max_bytes=max_bytes)
        return snapshots

    @classmethod
    def _first_part(cls, table: LoadedTable, snapshots: Self, *, max_bytes: int) -> Self:
        """All, or the first files if all have more than ``max_bytes``."""
        if surely_fit(table, snapshots.steps, max_bytes=max_bytes):
            return snapshots
        [step] = snapshots.steps
        load = ScanPlan.of(table, snapshots.steps)
        stop_file = leading_within(load.sizes(), max_bytes=max_bytes)
        if stop_file >= len(load.tasks):
            return snapshots
        # A load of 5 files in 3 batches. The cursor is at its snapshot after the first, and stays there until the last:
        #   batch 0   files 0-2   none -> snapshot 7
        #   batch 1   files 2-4   7 -> 7
        #   batch 2   files 4-5   7 -> 7; the next batch begins after 7
        part = LoadPart(first_file=0, stop_file=stop_file, num_files=len(load.tasks))
        # Not at a compaction after it, which has other files.
        return cls(
            after_snapshot_id=snapshots.after_snapshot_id,
            up_to_snapshot_id=step.end_snapshot_id,
            steps=(replace(step, load_part=part),),
            made_current_at_ms=step.made_current_at_ms,
        )

    @classmethod
    def next_part(
        cls,
        table: LoadedTable,
        delivered: LoadPart,
        *,
        snapshot_id: int,
        max_bytes: int,
        made_current_at_ms: int | None = None,
    ) -> Self:
        """The next files of a load, as a range that begins and ends at its snapshot.

        Raises:
            ExpiredHistoryError: the snapshot expired, and its files with it.
        """
        snapshot = table.history.snapshots.get(snapshot_id)
        if snapshot is None:
            raise ExpiredHistoryError(
                f"the initial load of table {table.name} has delivered {delivered.stop_file} of {delivered.num_files} "
                f"files of snapshot {snapshot_id}, which has expired or is not given"
            )
        step = Step.of(
            StepKind.INITIAL,
            [snapshot_id],
            timestamp_ms=snapshot.timestamp_ms,
            made_current_at_ms=made_current_at_ms,
        )
        rest = replace(delivered, first_file=delivered.stop_file, stop_file=delivered.num_files)
        load = ScanPlan.of(table, [replace(step, load_part=rest)])
        part = replace(rest, stop_file=rest.first_file + leading_within(load.sizes(), max_bytes=max_bytes))
        return cls(
            after_snapshot_id=snapshot_id,
            up_to_snapshot_id=snapshot_id,
            steps=(replace(step, load_part=part),),
            made_current_at_ms=made_current_at_ms,
        )


def _landing_step(landing: Landing) -> Step:
    """All its rows, or the difference to the state that was left."""
    return Step.of(
        StepKind.INITIAL if landing.left_snapshot_id is None else StepKind.STATES,
        [landing.snapshot.snapshot_id],
        timestamp_ms=landing.timestamp_ms,
        start_snapshot_id=landing.left_snapshot_id,
    )


def _published_step(state: PublishedState, *, change_ordinal: int, history: History) -> Step | None:
    """None if only ``replace`` snapshots lead to a state."""
    changing = [state.snapshot] if state.commits is None else _changing(state.commits)
    if not changing:
        return None
    kind, start_id, timestamp_ms = StepKind.COMMIT, state.left_snapshot_id, changing[-1].timestamp_ms
    if state.commits is None:
        kind, timestamp_ms = StepKind.STATES, state.made_current_at_ms
    if start_id is None:
        kind, timestamp_ms = StepKind.INITIAL, state.snapshot.timestamp_ms
    elif state.commits is not None:
        start_id = changing[0].parent_snapshot_id
    return Step.of(
        kind,
        [snapshot.snapshot_id for snapshot in changing],
        timestamp_ms=timestamp_ms,
        change_ordinal=change_ordinal,
        start_snapshot_id=start_id if start_id in history.snapshots else None,
        made_current_at_ms=state.made_current_at_ms,
    )


def _changing(group: Sequence[Snapshot]) -> list[Snapshot]:
    return [snapshot for snapshot in group if not is_replace(snapshot)]


def steps_within(table: LoadedTable, steps: Sequence[Step], *, max_bytes: int) -> int:
    """Number of leading steps, at least one, within ``max_bytes`` of files, each file once."""
    # No manifest is read if the summaries prove that all steps fit.
    if len(steps) < 2 or surely_fit(table, steps, max_bytes=max_bytes):
        return len(steps)
    return leading_within(_new_bytes(ScanPlan.of(table, steps), steps), max_bytes=max_bytes)


def surely_fit(table: LoadedTable, steps: Sequence[Step], *, max_bytes: int) -> bool:
    bound = file_bytes_bound(table.history.snapshots, steps)
    return bound is not None and bound <= max_bytes


def leading_within(sizes: Iterable[int], *, max_bytes: int) -> int:
    """Number of leading sizes that add up to at most ``max_bytes``; at least one.

    >>> leading_within([3, 4, 5], max_bytes=7), leading_within([3, 4, 5], max_bytes=1)
    (2, 1)
    """
    return max(1, sum(total <= max_bytes for total in accumulate(sizes)))


def _new_bytes(scan: ScanPlan, steps: Sequence[Step]) -> Iterable[int]:
    """Of files that no earlier step reads."""
    sizes = {step.change_ordinal: 0 for step in steps}
    first_steps: dict[int, int] = {}
    # A file counts for the first step that reads it: terms come in the order of the steps.
    for task in scan.tasks:
        sizes[task.terms[0].change_ordinal] += task.data_file.file_size_bytes
        for term in task.terms:
            for number in term.delete_files:
                first_steps[number] = min(term.change_ordinal, first_steps.get(number, term.change_ordinal))
    for number, ordinal in first_steps.items():
        sizes[ordinal] += scan.delete_files[number].size_bytes
    return sizes.values()
