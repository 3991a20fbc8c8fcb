"""The first snapshot of a range: whether history starts with it, and whether the files that it removed still exist."""

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import partial
from itertools import chain

from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.catalog.file_io import data_file_input, reading_data_file
from icefloe.iceberg.history.history import ExpiredHistoryError, History, is_replace
from icefloe.iceberg.manifests.manifest_entries import DataEntry, DeleteEntry, EntryStatus, ManifestFile
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.storage.requests import map_parallel


class SnapshotOrigin(Enum):
    """The kinds of snapshots whose parent is missing from the metadata."""

    ROOT = "root"
    """It added every file that it lists itself: its change is the whole table."""

    FRESH = "fresh"
    """Every live file is its own, but it also removed older ones: its state is complete, its change is not."""

    GAP = "gap"
    """It kept files of snapshots that are gone (PyIceberg's expiry sets parents to None, so None proves nothing)."""


def origin_of(snapshot: Snapshot, reader: ManifestReader) -> SnapshotOrigin:
    """The origin of a snapshot, by its manifests; raises as ``ManifestReader``."""
    manifests = reader.manifests(snapshot)
    if any(_shows_older_files(manifest, snapshot.snapshot_id) for manifest in manifests):
        return SnapshotOrigin.GAP
    entries = list(chain.from_iterable(map_parallel(partial(_entries, reader=reader), manifests)))
    live = [entry for entry in entries if entry.status is not EntryStatus.DELETED]
    if any(e.status is not EntryStatus.ADDED or e.snapshot_id != snapshot.snapshot_id for e in live):
        return SnapshotOrigin.GAP
    # It wrote every file itself, but only anew: the rows are older.
    if live and is_replace(snapshot):
        return SnapshotOrigin.GAP
    return SnapshotOrigin.ROOT if len(live) == len(entries) else SnapshotOrigin.FRESH


def require_removed_files(snapshot: Snapshot, history: History, reader: ManifestReader, io: FileIO) -> None:
    """Raise unless the files still exist that a snapshot with an expired parent removed.

    These files were live only in the parent, so its expiry may have deleted them: Java's does, PyIceberg's does not.
    The snapshot's own manifests name them.

    Raises:
        ExpiredHistoryError: a file is gone; carries ``path`` too.
        TransientError: the store did not answer.
    """

    def is_there(path: str) -> bool:
        with reading_data_file(path, table=history.table_name):
            return data_file_input(io, path, table=history.table_name).exists()

    paths = list(dict.fromkeys(_removed_paths(snapshot, reader)))
    for path, is_found in zip(paths, map_parallel(is_there, paths), strict=True):
        if not is_found:
            gap: ExpiredHistoryError = history.expired(snapshot.parent_snapshot_id, snapshot)
            raise gap.restated(
                f"{gap.sentence}; file {path}, which snapshot {snapshot.snapshot_id} removed, was deleted with it",
                path=path,
            )


def _removed_paths(snapshot: Snapshot, reader: ManifestReader) -> Iterator[str]:
    own = [m for m in reader.manifests(snapshot) if m.added_snapshot_id == snapshot.snapshot_id]
    for manifest in own:
        # Not None, as a V1 writer may leave the count: that manifest is read.
        if manifest.deleted_files_count == 0:
            continue
        if manifest.holds_deletes:
            yield from (e.delete_file.path for e in reader.delete_entries(manifest) if e.status is EntryStatus.DELETED)
        else:
            yield from (e.data_file.path for e in reader.data_entries(manifest) if e.status is EntryStatus.DELETED)


def _shows_older_files(manifest: ManifestFile, snapshot_id: int) -> bool:
    if manifest.added_snapshot_id != snapshot_id:
        return bool(manifest.added_files_count or manifest.existing_files_count)
    return bool(manifest.existing_files_count)


def _entries(manifest: ManifestFile, *, reader: ManifestReader) -> Sequence[DataEntry | DeleteEntry]:
    return reader.delete_entries(manifest) if manifest.holds_deletes else reader.data_entries(manifest)
