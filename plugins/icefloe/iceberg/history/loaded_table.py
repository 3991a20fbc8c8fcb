"""A table as planning sees it, with its history and metadata files, each read once."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Any

from pyiceberg.table import Table

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.catalog_errors import decoded_metadata, reading_metadata
from icefloe.iceberg.catalog.file_io import FileGoneError, exact
from icefloe.iceberg.history.history import MAIN, History
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.step import RecordedSnapshot
from icefloe.iceberg.table import table_name
from icefloe.storage.requests import map_parallel

__all__ = ["LoadedTable", "MetadataLog"]

logger = logging.getLogger(__name__)


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

    def __init__(self, table: Table) -> None:
        metadata = table.metadata
        self._io = exact(table.io)
        self._decoding = Lock()
        self._table_name = table_name(table)
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
            read = map_parallel(self._read, [self._files[index] for index in missing], name="icefloe-metadata")
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


class LoadedTable:
    """One version of a table's metadata, handed down through planning so that nothing is read twice.

    Attributes:
        metadata: only this version counts.
        manifests: keeps manifest lists and the entries of delete manifests.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self.name = table_name(table)
        self.metadata = table.metadata
        self.io = exact(table.io)
        self.history = History.of(table)
        self.log = MetadataLog(table)
        self.manifests = ManifestReader(table)

    def found(self, recorded: RecordedSnapshot) -> tuple[Table, int]:
        """The table, and the id that a recorded snapshot has in it.

        If its writer has used the id for another snapshot, the recorded one gets a negative id. It counts as expired if
        its manifest list cannot be read.
        """
        table, snapshot_id, path = self._table, recorded.snapshot_id, recorded.manifest_list
        found = self.metadata.snapshot_by_id(snapshot_id)
        if found is None or recorded.is_same(found):
            return table, snapshot_id
        is_there, own_id = False, -snapshot_id
        # An id may have been used more than twice.
        while (earlier := self.metadata.snapshot_by_id(own_id)) is not None:
            if recorded.is_same(earlier):
                return table, own_id
            own_id -= 1
        if path != found.manifest_list:
            # A file that may not be read is as good as gone.
            with suppress(TerminalError), reading_metadata(self.name, f"manifest list of snapshot {snapshot_id}", path):
                is_there = self.io.new_input(path).exists()
        if is_there:
            left = found.model_copy(update=asdict(recorded) | {"snapshot_id": own_id, "summary": None})
            metadata = self.metadata.model_copy(update={"snapshots": [*self.metadata.snapshots, left]})
            table = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config)
        return table, own_id
