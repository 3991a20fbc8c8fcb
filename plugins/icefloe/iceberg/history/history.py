"""The snapshots of a table, their lineage, and its branches now and over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.catalogs import UnknownTableError
from icefloe.iceberg.history.summaries import changed_records, chosen_properties, deletes_added, total_records
from icefloe.iceberg.step import RecordedSnapshot, Step, StepKind, ancestry
from icefloe.iceberg.table import table_name
from icefloe.units import natural, time_of_ms

__all__ = [
    "CursorDistance",
    "ExpiredHistoryError",
    "History",
    "NotAnAncestorError",
    "is_replace",
]

MAIN = "main"


class NotAnAncestorError(TerminalError):
    """A snapshot is not in the history of its branch, or not before the other end of its range."""

    @classmethod
    def on_branch(
        cls, branch: str, table: str, after_snapshot_id: int, up_to_snapshot_id: int | None, reason: str
    ) -> "NotAnAncestorError":
        """The error of a range on a branch; ``up_to_snapshot_id`` is None if the branch has no snapshot."""
        end = "the head" if up_to_snapshot_id is None else f"snapshot {up_to_snapshot_id}"
        return cls(
            f"snapshot {after_snapshot_id} is not an ancestor of {end} on branch {branch!r} of table {table}: {reason}"
        )


class ExpiredHistoryError(TerminalError):
    """The range reaches into history that is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMove:
    snapshot_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of a cursor behind the head of its branch."""

    snapshots: int | None  # without ``replace``; None if the cursor is not in the branch's history
    # Records added and deleted, carried-over ones too, and positions and keys of deletes; None if a summary lacks them.
    rows: int | None
    since_timestamp_ms: int | None = None  # of the oldest of these snapshots; None if there are none


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """Some snapshots of a table; rows are None if a summary does not say."""

    snapshots: int
    rows: int | None

    @classmethod
    def of(cls, snapshots: Sequence[Snapshot]) -> "Commits":
        """The numbers of some snapshots."""
        changing = [snapshot for snapshot in snapshots if not is_replace(snapshot)]
        counted = [changed_records(snapshot) for snapshot in changing]
        rows = sum(sum(each) for each in counted if each is not None) + sum(map(deletes_added, changing))
        return cls(snapshots=len(changing), rows=None if None in counted else rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorDistance:
    """The commits between two places of a cursor."""

    skipped: Commits
    repeated: Commits


_MAX_SNAPSHOT_AGE: Final = "history.expire.max-snapshot-age-ms"
_MIN_SNAPSHOTS: Final = "history.expire.min-snapshots-to-keep"
_MAX_REF_AGE: Final = "history.expire.max-ref-age-ms"
_EVER: Final = 2**63 - 1
_DEFAULTS: Final = {_MAX_SNAPSHOT_AGE: 5 * 24 * 60 * 60 * 1000, _MIN_SNAPSHOTS: 1, _MAX_REF_AGE: _EVER}
_LATEST: Final = 253_402_300_799_999
"""The last millisecond that can be written as a date; Iceberg's own "never" is far later."""


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
    properties: Mapping[str, object] = field(default_factory=dict)

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
            properties=metadata.properties,
        )

    def head(self, branch: str = MAIN) -> Snapshot | None:
        """The snapshot that a branch or tag points to; None for ``main`` of a table without any.

        Raises:
            UnknownTableError: there is no such branch or tag.
        """
        ref = self.refs.get(branch)
        if ref is None and branch == MAIN:
            return None
        if ref is None:
            tags = sorted(name for name in self.refs if self.is_tag(name))
            raise UnknownTableError(
                f"table {self.table_name} has no branch {branch!r}; its branches are "
                f"{', '.join(sorted({MAIN, *self.refs} - {*tags}))}"
                + (f", its tags {', '.join(tags)}" if tags else ""),
                table=self.table_name,
                branch=branch,
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
            raise NotAnAncestorError(
                f"table {self.table_name} has no snapshot {snapshot_id}: {self._given()}"
            ) from None

    def recorded(self, snapshot_id: int | None) -> RecordedSnapshot | None:
        """The facts of a snapshot, to be recorded; None if it is not in the table."""
        found = None if snapshot_id is None else self.snapshots.get(snapshot_id)
        return None if found is None else RecordedSnapshot.of(found)

    def is_same(self, recorded: RecordedSnapshot | None) -> bool:
        """True unless another snapshot has the id of a recorded one."""
        found = None if recorded is None else self.snapshots.get(recorded.snapshot_id)
        return recorded is None or found is None or recorded.is_same(found)

    def require_same(self, recorded: RecordedSnapshot | None) -> None:
        """Raise if another snapshot has the id of a recorded one."""
        if recorded is not None and not self.is_same(recorded):
            raise ExpiredHistoryError(
                f"snapshot {recorded.snapshot_id} of table {self.table_name} is another one than a batch recorded: its "
                "writer took that one back and used its id again; give up a batch that is open with icefloe abandon"
            )

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

    def lag(self, *, branch: str = MAIN, cursor_snapshot_id: int | None, is_loading: bool = False) -> Lag:
        """The lag of a cursor; None is before the first snapshot.

        Args:
            is_loading: the cursor's snapshot is delivered only in part; it counts too, its rows are unknown.
        """
        newest = self.head(branch)
        lineage = self.lineage(newest.snapshot_id) if newest else []
        pending = lineage[::-1] if cursor_snapshot_id is None else commits_after(lineage, cursor_snapshot_id)
        if pending is None:
            return Lag(snapshots=None, rows=None)
        commits = Commits.of(pending)
        first = next((snapshot for snapshot in pending if not is_replace(snapshot)), None)
        oldest = self.snapshots.get(cursor_snapshot_id or -1) if is_loading else first
        return Lag(
            snapshots=is_loading + commits.snapshots,
            rows=None if is_loading else commits.rows,
            since_timestamp_ms=None if oldest is None else oldest.timestamp_ms,
        )

    def cursor_distance(
        self, cursor_snapshot_id: int | None, snapshot_id: int, *, branch: str
    ) -> CursorDistance | None:
        """The commits that a move of a cursor skips or repeats; None if the cursor's snapshot expired."""
        head = self.head(branch)
        if head is None or not any(each.snapshot_id == snapshot_id for each in self.lineage(head.snapshot_id)):
            raise NotAnAncestorError(
                f"the cursor cannot be set to snapshot {snapshot_id}, because it is not in the history of branch "
                f"{branch!r} of table {self.table_name}; choose one of its snapshots that is still there"
            )
        if cursor_snapshot_id is not None and cursor_snapshot_id not in self.snapshots:
            return None
        # Cursor c, target t, common ancestor a:   a - x - c        repeated: x, c
        #                                           \- y - t       skipped:  y, t
        to_target = self.lineage(snapshot_id)
        to_cursor = list(ancestry(self.snapshots, cursor_snapshot_id))
        shared = {each.snapshot_id for each in to_target} & {each.snapshot_id for each in to_cursor}
        return CursorDistance(
            skipped=Commits.of([each for each in to_target if each.snapshot_id not in shared]),
            repeated=Commits.of([each for each in to_cursor if each.snapshot_id not in shared]),
        )

    def next_expiry_ms(self, snapshot_id: int) -> int | None:
        """Time from which ``expire_snapshots`` may remove a snapshot, in ms since 1970; may be past.

        None if kept or missing. It holds for the present table and a call without a time or ids: the head of a branch
        is kept, a former head is not.
        """
        # Source: the spec, "Snapshot Retention Policy" and "Snapshot References"; RemoveSnapshots of Iceberg 1.11.
        if snapshot_id not in self.snapshots:
            return None
        kept = [self._kept_by(name, ref, snapshot_id) for name, ref in self.refs.items()]
        unreferenced = self.snapshots[snapshot_id].timestamp_ms + self._retention(_MAX_SNAPSHOT_AGE)
        at = max((until for until in kept if until is not None), default=unreferenced)
        return None if at > _LATEST else at

    def _kept_by(self, name: str, ref: SnapshotRef, snapshot_id: int) -> int | None:
        """Time until which a branch or tag keeps a snapshot; None if it does not lead there."""
        lineage = list(ancestry(self.snapshots, ref.snapshot_id))[: 1 if self.is_tag(name) else None]
        ids = [snapshot.snapshot_id for snapshot in lineage]
        if snapshot_id not in ids:
            return None
        lineage = lineage[: ids.index(snapshot_id) + 1]
        # From the head, so many snapshots are kept, then young ones up to the first that is too old.
        by_age = lineage[max(1, ref.min_snapshots_to_keep or self._retention(_MIN_SNAPSHOTS)) :]
        max_age_ms = ref.max_snapshot_age_ms or self._retention(_MAX_SNAPSHOT_AGE)
        until = min((snapshot.timestamp_ms + max_age_ms for snapshot in by_age), default=_EVER)
        if name == MAIN:
            return until
        # A branch can expire as a whole. The snapshot is then kept as long as any that no branch leads to.
        ref_goes = lineage[0].timestamp_ms + (ref.max_ref_age_ms or self._retention(_MAX_REF_AGE))
        unreferenced = lineage[-1].timestamp_ms + self._retention(_MAX_SNAPSHOT_AGE)
        return until if until <= ref_goes else max(ref_goes, unreferenced)

    def _retention(self, key: str) -> int:
        """A table property. Not a number counts as absent: a forecast should not fail over it."""
        value = natural(str(self.properties.get(key)))
        return _DEFAULTS[key] if value is None else value

    def row_delta(self, step: Step) -> int | None:
        """Rows that a step adds by summaries, without deletes of delete files; None if unknown or of part of a load."""
        if step.kind is StepKind.COMMIT:
            counts = [changed_records(self.snapshots.get(snapshot_id)) for snapshot_id in step.snapshot_ids]
            return None if None in counts else sum(each[0] - each[1] for each in counts if each is not None)
        end = total_records(self.snapshots.get(step.end_snapshot_id))
        if step.kind is StepKind.INITIAL:
            return end if step.load_part is None else None
        start = total_records(self.snapshots.get(step.start_snapshot_id or -1))
        return None if start is None or end is None else end - start

    def with_properties(self, steps: Sequence[Step], keys: Sequence[str]) -> tuple[Step, ...]:
        """The steps with what the summaries of their snapshots say under these keys; without keys, as they are."""
        if not keys:
            return tuple(steps)
        found = [chosen_properties(self.snapshots.get(step.commit_snapshot_id), keys) for step in steps]
        return tuple(replace(step, commit_properties=properties) for step, properties in zip(steps, found, strict=True))

    def rows_at_head(self, branch: str) -> int | None:
        """Rows of all data files of a branch, by the summary of its head; None if it does not say."""
        return total_records(self.head(branch))

    def expired(self, snapshot_id: int | None, oldest: Snapshot) -> ExpiredHistoryError:
        """The error of a range that reaches back beyond ``oldest`` to ``snapshot_id`` (None: to the start)."""
        if snapshot_id is None:
            since = "the start of its history"
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
