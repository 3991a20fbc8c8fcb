"""A table as planning sees it, with its history and metadata files, each read once; whether history is whole."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from itertools import chain
from threading import Lock
from typing import Any, Final

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.catalog.catalog_errors import decoded_metadata, reading_metadata
from icefloe.iceberg.catalog.file_io import FileGoneError, data_file_input, exact, reading_data_file
from icefloe.iceberg.history.history import MAIN, BranchMove, ExpiredHistoryError, History, is_replace
from icefloe.iceberg.manifests.manifest_reader import DataEntry, DeleteEntry, EntryStatus, ManifestFile, ManifestReader
from icefloe.iceberg.table import table_name, table_uuid
from icefloe.iceberg.unreadable import refuse_encrypted
from icefloe.storage.requests import map_parallel

__all__ = ["LoadedTable", "MetadataLog"]

logger = logging.getLogger(__name__)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataVersion:
    """The part of one metadata file that planning needs."""

    snapshot_ids: frozenset[int]
    branch_heads: Mapping[str, int]
    last_updated_ms: int

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> "MetadataVersion":
        """The version that a metadata file's JSON describes."""
        heads = {name: ref["snapshot-id"] for name, ref in (metadata.get("refs") or {}).items()}
        # Metadata of V1 may have no refs, and -1 for no snapshot.
        current = metadata.get("current-snapshot-id")
        if current is not None and current != -1:
            heads.setdefault(MAIN, current)
        return cls(
            snapshot_ids=frozenset(snapshot["snapshot-id"] for snapshot in metadata.get("snapshots") or ()),
            branch_heads=heads,
            last_updated_ms=metadata["last-updated-ms"],
        )


class MetadataLog:
    """The metadata files of a table, oldest first, read once on demand, but the last, loaded one."""

    def __init__(self, metadata: TableMetadata, io: FileIO, *, table: str) -> None:
        self._io = io
        self._decoding = Lock()
        self._table_name = table
        self._files = [entry.metadata_file for entry in metadata.metadata_log]
        self.timestamps_ms = [entry.timestamp_ms for entry in metadata.metadata_log] + [metadata.last_updated_ms]
        current = MetadataVersion(
            snapshot_ids=frozenset(snapshot.snapshot_id for snapshot in metadata.snapshots),
            branch_heads={name: ref.snapshot_id for name, ref in metadata.refs.items()},
            last_updated_ms=metadata.last_updated_ms,
        )
        self._versions: dict[int, MetadataVersion | None] = {len(self._files): current}

    def __len__(self) -> int:
        return len(self.timestamps_ms)

    def version(self, index: int) -> MetadataVersion | None:
        """One version; None if the file is gone, for example cleaned up."""
        if index not in self._versions:
            self._versions[index] = self._read(self._files[index])
        return self._versions[index]

    def prefetch(self, indices: Iterable[int]) -> None:
        """Read several versions at once; raises as ``version``."""
        missing = sorted({index for index in indices if 0 <= index < len(self)} - self._versions.keys())
        if len(missing) > 1:
            read = map_parallel(self._read, [self._files[index] for index in missing])
            self._versions.update(zip(missing, read, strict=True))

    def newest_first(self) -> Iterator[MetadataVersion | None]:
        """Versions from the loaded table back; raises as ``version``."""
        for index in range(len(self) - 1, -1, -1):
            # Read ahead, since each version is a file, and what is looked for may be many versions ago.
            self.prefetch(range(index - 7, index + 1))
            yield self.version(index)

    def moved_at_ms(self, name: str) -> int:
        """Time in ms since which a branch or tag points to its snapshot, as far as the files show."""
        versions = zip(self.newest_first(), reversed(self.timestamps_ms), strict=True)
        current, since = next(versions)
        head = None if current is None else current.branch_heads.get(name)
        for version, timestamp_ms in versions:
            if version is None or version.branch_heads.get(name) != head:
                break
            since = timestamp_ms
        return since

    def _read(self, path: str) -> MetadataVersion | None:
        try:
            with reading_metadata(self._table_name, "metadata file", path):
                return MetadataVersion.of(decoded_metadata(self._io.new_input(path), json.loads, self._decoding))
        except FileGoneError:
            logger.info("metadata file %s of table %s is gone", path, self._table_name)
            return None


class SnapshotOrigin(Enum):
    """The kinds of snapshots whose parent is missing from the metadata."""

    ROOT = "root"
    """It added every file that it lists itself: its change is the whole table."""

    FRESH = "fresh"
    """Every live file is its own, but it also removed older ones: its state is complete, its change is not."""

    GAP = "gap"
    """It kept files of snapshots that are gone (PyIceberg's expiry sets parents to None, so None proves nothing)."""


def origin_of(snapshot: Snapshot, reader: ManifestReader) -> SnapshotOrigin:
    """The kind of a snapshot whose parent is missing; reads its manifests."""
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
    """Raise unless the files exist that a snapshot with an expired parent removed."""

    # They were live only in the parent, whose expiry may have deleted them: Java's does, PyIceberg's does not.
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
            yield from (each.file.path for each in removed)


def _shows_older_files(manifest: ManifestFile, snapshot_id: int) -> bool:
    if manifest.added_snapshot_id != snapshot_id:
        return bool(manifest.added_files_count or manifest.existing_files_count)
    return bool(manifest.existing_files_count)


def _entries(manifest: ManifestFile, *, reader: ManifestReader) -> Sequence[DataEntry | DeleteEntry]:
    return reader.delete_entries(manifest) if manifest.holds_deletes else reader.data_entries(manifest)


class LoadedTable:
    """One version of a table's metadata, handed down through planning so that nothing is read twice.

    Attributes:
        pyiceberg: by which its catalog is asked again.
        uuid: None if a V1 writer left it out.
        metadata: only this version counts.
        manifests: keeps manifest lists and the entries of delete manifests.
    """

    def __init__(self, table: Table) -> None:
        self.pyiceberg = table
        self.name = table_name(table)
        self.uuid = table_uuid(table)
        refuse_encrypted(table.properties, table=self.name)
        self.metadata = table.metadata
        self.io = exact(table.io)
        self.history = History.of(table)
        self.log = MetadataLog(self.metadata, self.io, table=self.name)
        self.manifests = ManifestReader(self.metadata, self.io, table=self.name)

    def snapshot_at(self, timestamp: datetime, *, branch: str = MAIN) -> int | None:
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
        moves = _moves(self.history, branch)
        timestamp_ms = (timestamp - _EPOCH) // timedelta(milliseconds=1)
        # As PyIceberg, and Iceberg's Java up to 1.11: the last entry of those that are not later. Clocks may go back.
        position = max((place for place, move in enumerate(moves, 1) if move.timestamp_ms <= timestamp_ms), default=0)
        if position < len(moves):
            _check_gap(self.history, self.manifests, moves[:position], moves[position], timestamp)
        return self.history.snapshot(moves[position - 1].snapshot_id).snapshot_id if position else None


def _moves(history: History, branch: str) -> Sequence[BranchMove]:
    newest = history.head(branch)
    if newest is None:
        return ()
    if branch == MAIN and history.log:
        return history.log
    lineage = reversed(history.lineage(newest.snapshot_id))
    return [BranchMove(snapshot_id=s.snapshot_id, timestamp_ms=s.timestamp_ms) for s in lineage]


def _check_gap(
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
