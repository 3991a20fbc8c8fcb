"""A cursor on its branch: its lag, the commits of a move, its snapshot's expiry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.history import MAIN, History, UnknownSnapshotError, commits_after, is_replace
from icefloe.iceberg.history.summaries import changed_records, deletes_added
from icefloe.iceberg.table import ancestry
from icefloe.units import natural

__all__ = ["Commits", "CursorDistance", "commits_behind", "cursor_distance", "lag", "next_expiry_ms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of a cursor behind the head of its branch.

    Attributes:
        snapshots: without ``replace``; None if the cursor is not in the branch's history.
        rows: records that these added and deleted, carried-over ones too, and positions and keys of deletes; None if a
            summary does not say.
        since_timestamp_ms: of the oldest of these snapshots; None if there are none.
    """

    snapshots: int | None
    rows: int | None
    since_timestamp_ms: int | None = None


def lag(history: History, *, branch: str = MAIN, cursor_snapshot_id: int | None, is_loading: bool = False) -> Lag:
    """The lag; a cursor of None is before the first snapshot. Reads nothing.

    Args:
        is_loading: the cursor's snapshot is delivered only in part; it counts too, its rows are unknown.
    """
    pending = commits_behind(history, branch=branch, cursor_snapshot_id=cursor_snapshot_id)
    if pending is None:
        return Lag(snapshots=None, rows=None)
    commits = Commits.of(pending)
    oldest = history.snapshots.get(cursor_snapshot_id or -1) if is_loading else next(iter(pending), None)
    return Lag(
        snapshots=is_loading + commits.snapshots,
        rows=None if is_loading else commits.rows,
        since_timestamp_ms=None if oldest is None else oldest.timestamp_ms,
    )


def commits_behind(history: History, *, branch: str, cursor_snapshot_id: int | None) -> Sequence[Snapshot] | None:
    """The snapshots after the cursor, oldest first, no ``replace``; None if the history lacks it."""
    newest = history.head(branch)
    lineage = history.lineage(newest.snapshot_id) if newest else []
    commits = lineage[::-1] if cursor_snapshot_id is None else commits_after(lineage, cursor_snapshot_id)
    return None if commits is None else [snapshot for snapshot in commits if not is_replace(snapshot)]


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


def cursor_distance(
    history: History, cursor_snapshot_id: int | None, snapshot_id: int, *, branch: str
) -> CursorDistance | None:
    """The commits that a move skips or repeats; None if the cursor's snapshot expired."""
    head = history.head(branch)
    if head is None or not any(each.snapshot_id == snapshot_id for each in history.lineage(head.snapshot_id)):
        raise UnknownSnapshotError(
            f"the cursor cannot be set to snapshot {snapshot_id}, because it is not in the history of branch "
            f"{branch!r} of table {history.table_name}; choose one of its snapshots that is still there"
        )
    if cursor_snapshot_id is not None and cursor_snapshot_id not in history.snapshots:
        return None
    # Cursor c, target t, common ancestor a:   a - x - c        repeated: x, c
    #                                           \\- y - t       skipped:  y, t
    to_target = history.lineage(snapshot_id)
    to_cursor = list(ancestry(history.snapshots, cursor_snapshot_id))
    shared = {each.snapshot_id for each in to_target} & {each.snapshot_id for each in to_cursor}
    return CursorDistance(
        skipped=Commits.of([each for each in to_target if each.snapshot_id not in shared]),
        repeated=Commits.of([each for each in to_cursor if each.snapshot_id not in shared]),
    )


_MAX_SNAPSHOT_AGE: Final = "history.expire.max-snapshot-age-ms"
_MIN_SNAPSHOTS: Final = "history.expire.min-snapshots-to-keep"
_MAX_REF_AGE: Final = "history.expire.max-ref-age-ms"
_FIVE_DAYS_MS: Final = 5 * 24 * 60 * 60 * 1000
_EVER: Final = 2**63 - 1
_LATEST: Final = 253_402_300_799_999
"""The last millisecond that can be written as a date; Iceberg's own "never" is far later."""


def next_expiry_ms(metadata: TableMetadata, snapshot_id: int) -> int | None:
    """Time from which ``expire_snapshots`` may remove a snapshot, in ms since 1970; may be past.

    None if kept or missing. It holds for the present table and a call without a time or ids: the head of a branch is
    kept, a former head is not.

    Source: the table spec, "Snapshot Retention Policy" and "Snapshot References", and RemoveSnapshots of Iceberg 1.11.
    """
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    if snapshot_id not in snapshots:
        return None
    max_age = _number(metadata.properties, _MAX_SNAPSHOT_AGE, _FIVE_DAYS_MS)
    unreferenced = snapshots[snapshot_id].timestamp_ms + max_age
    kept = [_kept_by(name, ref, snapshot_id, snapshots, metadata.properties) for name, ref in metadata.refs.items()]
    at = max((until for until in kept if until is not None), default=unreferenced)
    return None if at > _LATEST else at


def kept_until_ms(timestamps_ms: list[int], *, min_snapshots: int, max_age_ms: int) -> int:
    """Time until which a branch keeps the last of some snapshots from its head on.

    It keeps ``min_snapshots`` from the head, then young ones up to the first that is too old.

    >>> day = 86_400_000
    >>> kept_until_ms([9 * day, 4 * day, 2 * day], min_snapshots=1, max_age_ms=5 * day) // day
    7
    >>> kept_until_ms([9 * day, 4 * day], min_snapshots=2, max_age_ms=5 * day) > 2**62
    True
    """
    by_age = timestamps_ms[max(1, min_snapshots) :]
    return min((timestamp_ms + max_age_ms for timestamp_ms in by_age), default=_EVER)


def _kept_by(
    name: str, ref: SnapshotRef, snapshot_id: int, snapshots: Mapping[int, Snapshot], properties: Mapping[str, object]
) -> int | None:
    """None if it does not lead there."""
    lineage = list(ancestry(snapshots, ref.snapshot_id))
    if ref.snapshot_ref_type is SnapshotRefType.TAG:
        lineage = lineage[:1]
    ids = [snapshot.snapshot_id for snapshot in lineage]
    if snapshot_id not in ids:
        return None
    lineage = lineage[: ids.index(snapshot_id) + 1]
    until = kept_until_ms(
        [snapshot.timestamp_ms for snapshot in lineage],
        min_snapshots=ref.min_snapshots_to_keep or _number(properties, _MIN_SNAPSHOTS, 1),
        max_age_ms=ref.max_snapshot_age_ms or _number(properties, _MAX_SNAPSHOT_AGE, _FIVE_DAYS_MS),
    )
    if name == MAIN:
        return until
    # A branch can expire as a whole. The snapshot is then kept as long as any that no branch leads to.
    ref_goes = lineage[0].timestamp_ms + (ref.max_ref_age_ms or _number(properties, _MAX_REF_AGE, _EVER))
    unreferenced = lineage[-1].timestamp_ms + _number(properties, _MAX_SNAPSHOT_AGE, _FIVE_DAYS_MS)
    return until if until <= ref_goes else max(ref_goes, unreferenced)


def _number(properties: Mapping[str, object], key: str, default: int) -> int:
    """Not a number counts as absent: a forecast should not fail over it."""
    value = natural(str(properties.get(key, default)))
    return default if value is None else value
