"""Commit groups: the snapshots that one metadata commit published together."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.loaded_table import MetadataLog, MetadataVersion
from icefloe.pipeline.option_values import CommitGroupsOption


class Versions(Protocol):
    """The part of a metadata log that finding commits needs."""

    @property
    def timestamps_ms(self) -> Sequence[int]:
        """Time when each version was written."""

    def version(self, index: int) -> MetadataVersion | None:
        """One version, counted from the oldest; None if it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The two versions of the metadata between which a snapshot appeared.

    Attributes:
        absent_index: the newest known not to list it; None if the log does not reach back to one.
        present_index: the oldest known to list it.
    """

    absent_index: int | None
    present_index: int

    @property
    def is_exact(self) -> bool:
        """True if no version is between the two."""
        return self.absent_index is not None and self.present_index - self.absent_index == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitGroups:
    """Snapshots in commits.

    Attributes:
        groups: oldest first; every snapshot is in one.
        unknown: neighbours that were split, because nothing proves that one commit published them.
    """

    groups: tuple[tuple[Snapshot, ...], ...]
    unknown: tuple[tuple[Snapshot, Snapshot], ...] = ()

    def first(self, count: int) -> "CommitGroups":
        """The oldest groups."""
        groups = self.groups[:count]
        known = {snapshot.snapshot_id for group in groups for snapshot in group}
        unknown = tuple(pair for pair in self.unknown if pair[1].snapshot_id in known)
        return CommitGroups(groups=groups, unknown=unknown)

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


def commit_groups(
    snapshots: Sequence[Snapshot], log: MetadataLog, *, commit_groups: CommitGroupsOption
) -> CommitGroups:
    """The snapshots of a lineage, oldest first, by the commits that published them.

    Reads the metadata files around the snapshots' times, and none for a single snapshot or for ``split``.
    """
    if commit_groups == "split" or len(snapshots) < 2:
        return CommitGroups(groups=tuple((snapshot,) for snapshot in snapshots))
    guesses = {_guess(snapshot, log) for snapshot in snapshots}
    log.prefetch(guesses | {guess - 1 for guess in guesses})
    return group_by_publication(snapshots, [publication(snapshot, log) for snapshot in snapshots])


def group_by_publication(snapshots: Sequence[Snapshot], publications: Sequence[Publication]) -> CommitGroups:
    """Group neighbours that appeared in the same, exactly known version."""
    #   snapshots                 a       b       c
    #   absent in, present in     3, 4    3, 4    4, 5        groups [a b] [c]
    groups: list[list[Snapshot]] = []
    unknown = []
    previous: Publication | None = None
    for snapshot, current in zip(snapshots, publications, strict=True):
        if previous is not None and previous.is_exact and previous == current:
            groups[-1].append(snapshot)
        else:
            # Neither proven to be one commit nor proven to be two. Two steps tell every change; one step might hide
            # some.
            if previous is not None and not _are_apart(previous, current):
                unknown.append((groups[-1][-1], snapshot))
            groups.append([snapshot])
        previous = current
    return CommitGroups(groups=tuple(tuple(group) for group in groups), unknown=tuple(unknown))


def publication(snapshot: Snapshot, versions: Versions) -> Publication:
    """The versions between which a snapshot of the newest version appeared.

    Looks where the clocks suggest, then next to it, then halves the rest: a snapshot is in every version since its
    first.
    """
    # A snapshot that versions 3 to 5 list:
    #   0 .   1 .   2 .   3 x   4 x   5 x
    # Right clocks suggest 3, which lists it, then 2, which does not: two files prove the boundary. With wrong clocks
    # the rest is halved, again and again.
    absent, present = -1, len(versions.timestamps_ms) - 1
    probe = _guess(snapshot, versions)
    gone: set[int] = set()
    is_near = False
    while candidates := [index for index in range(absent + 1, present) if index not in gone]:
        index = probe if probe in candidates else candidates[len(candidates) // 2]
        version = versions.version(index)
        if version is None:
            gone.add(index)
        elif snapshot.snapshot_id in version.snapshot_ids:
            present = index
        else:
            absent = index
        # One step towards the other side first: with right clocks that proves the boundary.
        probe = -1 if is_near else (index - 1 if present == index else index + 1)
        is_near = True
    return Publication(absent_index=None if absent < 0 else absent, present_index=present)


def _guess(snapshot: Snapshot, versions: Versions) -> int:
    return min(bisect_left(versions.timestamps_ms, snapshot.timestamp_ms), len(versions.timestamps_ms) - 1)


def _are_apart(older: Publication, newer: Publication) -> bool:
    return newer.absent_index is not None and newer.absent_index >= older.present_index
