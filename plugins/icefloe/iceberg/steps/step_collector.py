"""Collects and numbers the steps of a range, up to the most that one batch may have."""

from collections.abc import Sequence
from typing import Final, Literal

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.history import History, is_replace
from icefloe.iceberg.history.metadata_log import MetadataLog
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.step import Step, StepKind
from icefloe.iceberg.steps.commit_groups import CommitGroups
from icefloe.iceberg.steps.commit_groups import commit_groups as group_commits
from icefloe.iceberg.steps.replace_check import check_replace

_SNAPSHOTS_PER_COMMIT: Final = 4
"""The most snapshots that one call of PyIceberg makes."""


class StepCollector:
    """Makes the steps of one range; commits that do not fit into ``max_steps`` are left out, never half a commit.

    Args:
        table: as loaded.
        commit_groups: ``fuse`` the snapshots of one commit, or ``split``: a step for each.
        max_steps: the most steps; None: no limit.

    Attributes:
        steps: by ordinal.
        warnings: one sentence each.
        skipped_replace_snapshots: number of ``replace`` snapshots that were skipped.
        last_snapshot_id: the end of the steps, including ``replace`` snapshots after the last step.
    """

    def __init__(self, table: Table, *, commit_groups: Literal["fuse", "split"], max_steps: int | None) -> None:
        self.history = History.of(table)
        self.reader = ManifestReader(table)
        self.log = MetadataLog(table)
        self.steps: list[Step] = []
        self.warnings: list[str] = []
        self.skipped_replace_snapshots = 0
        self.last_snapshot_id: int | None = None
        self._commit_groups = commit_groups
        self._max_steps = max_steps

    def add_state(self, snapshot: Snapshot) -> None:
        """Add every live row at a snapshot."""
        self._add(StepKind.INITIAL, [snapshot], start_snapshot_id=None)

    def add_move(self, snapshot: Snapshot, *, start_snapshot_id: int, timestamp_ms: int) -> None:
        """Add the difference between two states: a branch or tag was moved to ``snapshot`` at a time."""
        self._add(StepKind.STATES, [snapshot], start_snapshot_id=start_snapshot_id, timestamp_ms=timestamp_ms)

    def add_commits(self, snapshots: Sequence[Snapshot]) -> None:
        """Add the commits of a lineage, oldest first, as many as fit; raises as ``check_replace``."""
        groups = self._groups(snapshots)
        taken = 0
        for group in groups.groups:
            changing = _changing(group)
            # A commit that only replaces files is no step, so it fits in any case and takes the cursor along.
            if changing and len(self.steps) == self._max_steps:
                break
            for snapshot in group:
                if is_replace(snapshot):
                    self._skip(snapshot)
            if changing:
                self._add(StepKind.COMMIT, changing, start_snapshot_id=self._if_there(changing[0].parent_snapshot_id))
            self.last_snapshot_id = group[-1].snapshot_id
            taken += 1
        self.warnings += groups.first(taken).warnings(self.history.table_name)

    def _groups(self, snapshots: Sequence[Snapshot]) -> CommitGroups:
        """The commits of the oldest snapshots, at least as many as fit; finding more of them would read more files."""
        room = len(snapshots) if self._max_steps is None else self._max_steps - len(self.steps)
        size = _SNAPSHOTS_PER_COMMIT * (room + 1)
        while True:
            groups = group_commits(snapshots[:size], self.log, commit_groups=self._commit_groups)
            # More commits than fit: the last one may be cut, and is not taken.
            if size >= len(snapshots) or sum(bool(_changing(group)) for group in groups.groups) > room:
                return groups
            size *= 2

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
            change_ordinal=len(self.steps),
            kind=kind,
            start_snapshot_id=start_snapshot_id,
            end_snapshot_id=last.snapshot_id,
            snapshot_ids=tuple(snapshot.snapshot_id for snapshot in snapshots),
            commit_snapshot_id=last.snapshot_id,
            commit_timestamp_us=1000 * (last.timestamp_ms if timestamp_ms is None else timestamp_ms),
        )
        self.steps.append(step)
        self.last_snapshot_id = last.snapshot_id

    def _skip(self, snapshot: Snapshot) -> None:
        self.skipped_replace_snapshots += 1
        warning = check_replace(snapshot, self.history, self.reader)
        self.warnings += [warning] if warning else []

    def _if_there(self, snapshot_id: int | None) -> int | None:
        return snapshot_id if snapshot_id in self.history.snapshots else None


def _changing(group: Sequence[Snapshot]) -> list[Snapshot]:
    return [snapshot for snapshot in group if not is_replace(snapshot)]
