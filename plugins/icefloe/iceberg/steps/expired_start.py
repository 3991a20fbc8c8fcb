"""The check that a range whose start expired can still read the files that its first step removed."""

from collections.abc import Iterator

from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.catalog.file_io import data_file_input, reading_data_file
from icefloe.iceberg.history.history import ExpiredHistoryError, History
from icefloe.iceberg.manifests.manifest_entries import EntryStatus
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.storage.parallel import map_parallel


def require_removed_files(snapshot: Snapshot, history: History, reader: ManifestReader, io: FileIO) -> None:
    """Raise unless the files still exist that a snapshot with an expired parent removed.

    These files were live only in the parent, so its expiry may have deleted them: Java's does, PyIceberg's does not.
    The snapshot's own manifests name them.

    Raises:
        ExpiredHistoryError: a file is gone; carries ``path`` too.
        TransientError: the store did not answer.
    """
    paths = list(dict.fromkeys(_removed_paths(snapshot, reader)))
    are_there = map_parallel(lambda path: _is_there(path, history, io), paths)
    for path, is_there in zip(paths, are_there, strict=True):
        if not is_there:
            oldest = history.lineage(snapshot.snapshot_id)[-1]
            gap: ExpiredHistoryError = history.expired(snapshot.parent_snapshot_id, oldest)
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


def _is_there(path: str, history: History, io: FileIO) -> bool:
    with reading_data_file(path, table=history.table_name):
        return data_file_input(io, path, table=history.table_name).exists()
