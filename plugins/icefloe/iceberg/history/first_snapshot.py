"""The first snapshot of a range: whether history starts with it; the snapshot at a time."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from itertools import chain
from typing import Final

from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.catalog.file_io import data_file_input, reading_data_file
from icefloe.iceberg.history.history import MAIN, BranchMove, ExpiredHistoryError, History, is_replace
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.manifests.manifest_reader import DataEntry, DeleteEntry, EntryStatus, ManifestFile, ManifestReader
from icefloe.storage.requests import map_parallel

__all__ = ["snapshot_at"]


class SnapshotOrigin(Enum):
    """The kinds of snapshots whose parent is missing from the metadata."""

    ROOT = "root"
    """It added every file that it lists itself: its change is the whole table."""

    FRESH = "fresh"
    """Every live file is its own, but it also removed older ones: its state is complete, its change is not."""

    GAP = "gap"
    """It kept files of snapshots that are gone (PyIceberg's expiry sets parents to None, so None proves nothing)."""


def origin_of(snapshot: Snapshot, reader: ManifestReader) -> SnapshotOrigin:
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
    """Raise unless the files exist that a snapshot with an expired parent removed.

    They were live only in the parent, whose expiry may have deleted them: Java's does, PyIceberg's does not.
    """

    def is_there(path: str) -> bool:
        with reading_data_file(path, table=history.table_name):
            return data_file_input(io, path, table=history.table_name).exists()

    paths = list(dict.fromkeys(_removed_paths(snapshot, reader)))
    for path, is_found in zip(paths, map_parallel(is_there, paths), strict=True):
        if not is_found:
            gap: ExpiredHistoryError = history.expired(snapshot.parent_snapshot_id, snapshot)
            raise gap.restated(
                f"{gap.sentence}; file {path}, which snapshot {snapshot.snapshot_id} removed, was deleted with it"
            )


def _removed_paths(snapshot: Snapshot, reader: ManifestReader) -> Iterator[str]:
    for manifest in reader.manifests(snapshot):
        # Not None, as a V1 writer may leave the count: that manifest is read.
        if manifest.added_snapshot_id == snapshot.snapshot_id and manifest.deleted_files_count != 0:
            removed = (each for each in _entries(manifest, reader=reader) if each.status is EntryStatus.DELETED)
            yield from ((e.delete_file if isinstance(e, DeleteEntry) else e.data_file).path for e in removed)


def _shows_older_files(manifest: ManifestFile, snapshot_id: int) -> bool:
    if manifest.added_snapshot_id != snapshot_id:
        return bool(manifest.added_files_count or manifest.existing_files_count)
    return bool(manifest.existing_files_count)


def _entries(manifest: ManifestFile, *, reader: ManifestReader) -> Sequence[DataEntry | DeleteEntry]:
    return reader.delete_entries(manifest) if manifest.holds_deletes else reader.data_entries(manifest)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def snapshot_at(table: LoadedTable, timestamp: datetime, *, branch: str = MAIN) -> int | None:
    """The id of the snapshot current at a time, by the snapshot log; on other branches by the lineage's times.

    Args:
        timestamp: with an offset; a snapshot of that very millisecond counts.

    Returns:
        None if the table had no snapshot yet: a range from there starts with the history.

    Raises:
        ExpiredHistoryError: that snapshot has expired.
    """
    if timestamp.tzinfo is None:
        raise ValueError(f"a time of the table's history needs an offset, found {timestamp.isoformat()}")
    history = table.history
    moves = _moves(history, branch)
    timestamp_ms = (timestamp - _EPOCH) // timedelta(milliseconds=1)
    position = bisect_right([move.timestamp_ms for move in moves], timestamp_ms)
    if position < len(moves):
        _refuse_gap(history, table.manifests, moves[:position], moves[position], timestamp)
    return history.snapshot(moves[position - 1].snapshot_id).snapshot_id if position else None


def _moves(history: History, branch: str) -> Sequence[BranchMove]:
    newest = history.head(branch)
    if newest is None:
        return ()
    if branch == MAIN and history.log:
        return history.log
    lineage = reversed(history.lineage(newest.snapshot_id))
    return [BranchMove(snapshot_id=s.snapshot_id, timestamp_ms=s.timestamp_ms) for s in lineage]


def _refuse_gap(
    history: History, reader: ManifestReader, before: Sequence[BranchMove], following: BranchMove, timestamp: datetime
) -> None:
    """Raise if an expired snapshot may have been current between."""
    # The log says 1, then 3, and a time between them is asked for. If 3 comes from 1, it was 1. Otherwise a snapshot in
    # between may have expired, unless the branch was moved: to a snapshot that it had before, to one whose parent is
    # still there, or to a new beginning.
    if before and history.is_ancestor(before[-1].snapshot_id, following.snapshot_id):
        return
    snapshot = history.snapshot(following.snapshot_id)
    is_rollback = any(move.snapshot_id == following.snapshot_id for move in before)
    if is_rollback or (before and snapshot.parent_snapshot_id in history.snapshots):
        return
    if origin_of(snapshot, reader) is SnapshotOrigin.ROOT:
        return
    raise ExpiredHistoryError(
        f"the snapshot that was current in table {history.table_name} at {timestamp.isoformat()} expired, or the "
        f"catalog leaves it out: the next one still there is {snapshot.snapshot_id}"
    )
