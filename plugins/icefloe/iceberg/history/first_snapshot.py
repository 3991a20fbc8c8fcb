"""The start of history at a snapshot: the true start, or only the start of the history that is left."""

from enum import Enum

from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.history import is_replace
from icefloe.iceberg.manifests.manifest_entries import DataEntry, DeleteEntry, EntryStatus, ManifestFile
from icefloe.iceberg.manifests.manifest_reader import ManifestReader

__all__ = ["Origin", "origin_of"]


class Origin(Enum):
    """The kinds of snapshots whose parent is missing from the metadata."""

    ROOT = "root"
    """It added every file that it lists itself: its change is the whole table."""

    FRESH = "fresh"
    """Every live file is its own, but it also removed older ones: its state is complete, its change is not."""

    GAP = "gap"
    """It kept files of snapshots that are gone (PyIceberg's expiry sets parents to None, so None proves nothing)."""


def origin_of(snapshot: Snapshot, reader: ManifestReader) -> Origin:
    """The origin of a snapshot, by its manifests; raises as ``ManifestReader``."""
    manifests = reader.manifests(snapshot)
    if any(_shows_older_files(manifest, snapshot.snapshot_id) for manifest in manifests):
        return Origin.GAP
    entries = [entry for manifest in manifests for entry in _entries(manifest, reader)]
    live = [entry for entry in entries if entry.status is not EntryStatus.DELETED]
    if any(e.status is not EntryStatus.ADDED or e.snapshot_id != snapshot.snapshot_id for e in live):
        return Origin.GAP
    # It wrote every file itself, but only anew: the rows are older.
    if live and is_replace(snapshot):
        return Origin.GAP
    return Origin.ROOT if len(live) == len(entries) else Origin.FRESH


def _shows_older_files(manifest: ManifestFile, snapshot_id: int) -> bool:
    if manifest.added_snapshot_id != snapshot_id:
        return bool(manifest.added_files_count or manifest.existing_files_count)
    return bool(manifest.existing_files_count)


def _entries(manifest: ManifestFile, reader: ManifestReader) -> list[DataEntry] | tuple[DeleteEntry, ...]:
    return reader.delete_entries(manifest) if manifest.holds_deletes else reader.data_entries(manifest)
