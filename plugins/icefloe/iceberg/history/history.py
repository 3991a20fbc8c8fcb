"""The snapshots of a table, their lineage, and its branches now and over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot

from icefloe.errors import TerminalError
from icefloe.iceberg.step import RecordedSnapshot
from icefloe.iceberg.table import ancestry, table_name
from icefloe.units import time_of_ms

__all__ = [
    "MAIN",
    "ExpiredHistoryError",
    "History",
    "NotAnAncestorError",
    "UnknownBranchError",
    "is_replace",
]

MAIN = "main"


class UnknownBranchError(TerminalError):
    """The table has no such branch."""


class UnknownSnapshotError(TerminalError):
    """The table, or the history of the branch, has no such snapshot."""


class NotAnAncestorError(TerminalError):
    """The range's start is not an ancestor of its end."""

    @classmethod
    def on_branch(
        cls, branch: str, table: str, after_snapshot_id: int, up_to_snapshot_id: int | None, reason: str
    ) -> "NotAnAncestorError":
        """The error of a range on a branch; ``up_to_snapshot_id`` is None if the branch has no snapshot."""
        end = "the head" if up_to_snapshot_id is None else f"snapshot {up_to_snapshot_id}"
        return cls(
            f"snapshot {abs(after_snapshot_id)} is not an ancestor of {end} on branch {branch!r} of table {table}: "
            f"{reason}"
        )


class ExpiredHistoryError(TerminalError):
    """The range reaches into history that is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMove:
    snapshot_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The past of a table, by one version of its metadata.

    Attributes:
        log: snapshots that ``main`` pointed to, oldest first; expired ones may leave gaps.
    """

    table_name: str
    snapshots: Mapping[int, Snapshot]
    refs: Mapping[str, SnapshotRef]
    log: Sequence[BranchMove] = ()
    last_updated_ms: int = 0

    @classmethod
    def of(cls, table: Table) -> "History":
        """The history in the metadata that ``table`` was loaded with."""
        metadata = table.metadata
        return cls(
            table_name=table_name(table),
            snapshots={snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots},
            refs=metadata.refs,
            log=[BranchMove(snapshot_id=e.snapshot_id, timestamp_ms=e.timestamp_ms) for e in metadata.snapshot_log],
            last_updated_ms=metadata.last_updated_ms,
        )

    def head(self, branch: str = MAIN) -> Snapshot | None:
        """The snapshot that a branch or tag points to; None for ``main`` of a table without any.

        Raises:
            UnknownBranchError: there is no such branch or tag.
        """
        ref = self.refs.get(branch)
        if ref is None and branch == MAIN:
            return None
        if ref is None:
            tags = sorted(name for name in self.refs if self.is_tag(name))
            raise UnknownBranchError(
                f"table {self.table_name} has no branch {branch!r}; its branches are "
                f"{', '.join(sorted({MAIN, *self.refs} - {*tags}))}" + (f", its tags {', '.join(tags)}" if tags else "")
            )
        return self.snapshot(ref.snapshot_id)

    def is_tag(self, name: str) -> bool:
        """True for a tag: one state of the table, without a history of its own."""
        ref = self.refs.get(name)
        return ref is not None and ref.snapshot_ref_type is SnapshotRefType.TAG

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id."""
        try:
            return self.snapshots[snapshot_id]
        except KeyError:
            raise UnknownSnapshotError(
                f"table {self.table_name} has no snapshot {snapshot_id}: {self._given()}"
            ) from None

    def recorded(self, snapshot_id: int | None) -> RecordedSnapshot | None:
        """The facts of a snapshot, to be recorded; None if it is not in the table."""
        found = None if snapshot_id is None else self.snapshots.get(snapshot_id)
        return None if found is None else RecordedSnapshot.of(found)

    def lineage(self, snapshot_id: int) -> list[Snapshot]:
        """The snapshot and its existing ancestors, newest first."""
        lineage = list(ancestry(self.snapshots, self.snapshot(snapshot_id).snapshot_id))
        if (oldest := lineage[-1]).parent_snapshot_id in self.snapshots:
            raise TerminalError(
                f"the metadata of table {self.table_name} is damaged: snapshot {oldest.parent_snapshot_id} is its own "
                "ancestor"
            )
        return lineage

    def is_ancestor(self, ancestor_id: int, snapshot_id: int) -> bool:
        """True if both are the same, or the remaining metadata shows it."""
        # An ancestor may have expired: its child still names it.
        return any(
            ancestor_id in (snapshot.snapshot_id, snapshot.parent_snapshot_id)
            for snapshot in ancestry(self.snapshots, snapshot_id)
        )

    def nearest_common_ancestor(self, one_id: int, other_id: int) -> int | None:
        """The newest existing snapshot from which both descend; one may be the other."""
        others = {snapshot.snapshot_id for snapshot in ancestry(self.snapshots, other_id)}
        return next((s.snapshot_id for s in ancestry(self.snapshots, one_id) if s.snapshot_id in others), None)

    def expired(self, snapshot_id: int | None, oldest: Snapshot) -> ExpiredHistoryError:
        """The error of a range that reaches back beyond ``oldest`` to ``snapshot_id`` (None: to the start)."""
        if snapshot_id is None:
            since = "the start of its history"
        elif snapshot_id < 0:
            since = f"snapshot {-snapshot_id}, whose writer took it back and used its id again"
        elif snapshot_id in self.snapshots:
            since = f"snapshot {snapshot_id}, because the snapshots after it have expired"
        else:
            since = f"snapshot {snapshot_id}"
        return ExpiredHistoryError(
            f"table {self.table_name} no longer has the changes since {since}: {self._given(oldest)}"
        )

    def _given(self, oldest: Snapshot | None = None) -> str:
        """Metadata does not say if the rest expired or was never given."""
        oldest = oldest or min(self.snapshots.values(), key=lambda each: each.timestamp_ms, default=None)
        known = f", the oldest is {oldest.snapshot_id} of {time_of_ms(oldest.timestamp_ms)}" if oldest else ""
        given = f"the catalog gave {len(self.snapshots)} snapshot{'s' * (len(self.snapshots) != 1)}{known}"
        return f"{given}; others expired, never existed, or are left out by the catalog"


def commits_after(lineage: Sequence[Snapshot], after_snapshot_id: int) -> tuple[Snapshot, ...] | None:
    """The part of a lineage after a snapshot, oldest first; None if it lacks the snapshot."""
    newer: list[Snapshot] = []
    for snapshot in lineage:
        if snapshot.snapshot_id == after_snapshot_id:
            return tuple(reversed(newer))
        newer.append(snapshot)
        # The start itself may have expired: its child still names it.
        if snapshot.parent_snapshot_id == after_snapshot_id:
            return tuple(reversed(newer))
    return None


def is_replace(snapshot: Snapshot) -> bool:
    """True if a snapshot says that it changed no row."""
    return snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE
