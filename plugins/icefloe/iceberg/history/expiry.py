"""The time at which a snapshot may expire."""

from collections.abc import Mapping
from typing import Final

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.table import ancestry
from icefloe.units import natural

_MAX_SNAPSHOT_AGE: Final = "history.expire.max-snapshot-age-ms"
_MIN_SNAPSHOTS: Final = "history.expire.min-snapshots-to-keep"
_MAX_REF_AGE: Final = "history.expire.max-ref-age-ms"
_FIVE_DAYS_MS: Final = 5 * 24 * 60 * 60 * 1000
_EVER: Final = 2**63 - 1
_LATEST: Final = 253_402_300_799_999
"""The last millisecond that can be written as a date; Iceberg's own "never" is far later."""


def next_expiry_ms(
    snapshots: Mapping[int, Snapshot],
    refs: Mapping[str, SnapshotRef],
    properties: Mapping[str, object],
    snapshot_id: int,
) -> int | None:
    """See `History.next_expiry_ms`.

    Source: the table spec, "Snapshot Retention Policy" and "Snapshot References", and RemoveSnapshots of Iceberg 1.11.
    """
    if snapshot_id not in snapshots:
        return None
    max_age = _number(properties, _MAX_SNAPSHOT_AGE, _FIVE_DAYS_MS)
    unreferenced = snapshots[snapshot_id].timestamp_ms + max_age
    kept = [_kept_by(name, ref, snapshot_id, snapshots, properties) for name, ref in refs.items()]
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
    if name == MAIN_BRANCH:
        return until
    # A branch can expire as a whole. The snapshot is then kept as long as any that no branch leads to.
    ref_goes = lineage[0].timestamp_ms + (ref.max_ref_age_ms or _number(properties, _MAX_REF_AGE, _EVER))
    unreferenced = lineage[-1].timestamp_ms + _number(properties, _MAX_SNAPSHOT_AGE, _FIVE_DAYS_MS)
    return until if until <= ref_goes else max(ref_goes, unreferenced)


def _number(properties: Mapping[str, object], key: str, default: int) -> int:
    """Not a number counts as absent: a forecast should not fail over it."""
    value = natural(str(properties.get(key, default)))
    return default if value is None else value
