"""A table whose manifests say whatever a test wants, also what no right writer says."""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestListWriterV2,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from support.tables.planning_tables import make_catalog
from support.tables.written_deletes import write_position_deletes
from support.tables.written_tables import with_id

__all__ = ["Entry", "HandMadeTable"]

_COUNTS: Final = range(7, 13)
"""The slots of a manifest list's row with its six counts."""
_SCHEMA: Final = pa.schema([with_id(1, pa.field("id", pa.int64()))])


class Entry(NamedTuple):
    """A line of a manifest; None: as a right writer leaves it, to be inherited."""

    file: DataFile
    status: ManifestEntryStatus = ManifestEntryStatus.ADDED
    snapshot_id: int | None = None
    sequence_number: int | None = None


class _Manifest(ManifestWriterV2):
    def __init__(self, *arguments: Any, content: ManifestContent) -> None:
        super().__init__(*arguments)
        self._content = content

    def content(self) -> ManifestContent:
        return self._content

    def prepare_entry(self, entry: ManifestEntry) -> ManifestEntry:
        return entry


class _ManifestList(ManifestListWriterV2):
    def prepare_manifest(self, manifest_file: ManifestFile) -> ManifestFile:
        return manifest_file


@dataclass
class HandMadeTable:
    """The table ``db.events`` with the column ``id``, in a catalog of ``folder``.

    Attributes:
        metadata: its JSON, as far as it is written.
        location: the newest metadata file.
    """

    folder: Path
    metadata: dict[str, Any] = field(init=False)
    location: str = field(init=False)
    _table: Table = field(init=False)
    _numbers: Any = field(init=False, default_factory=count)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._catalog = make_catalog(self.folder, "lab")
        self._table = self._catalog.create_table("db.events", pa.schema([("id", pa.int64())]))
        self.location = self._table.metadata_location
        self.metadata = json.loads(self._path(self.location).read_bytes())

    def rows(self, *ids: int) -> DataFile:
        """A data file."""
        path = self._new("data", "parquet")
        pq.write_table(pa.table({"id": list(ids)}, schema=_SCHEMA), path)
        return self._file(path, DataFileContent.DATA, len(ids))

    def deletes(self, of: DataFile, *positions: int) -> DataFile:
        """A position delete file of one data file."""
        path = self._new("data", "parquet")
        write_position_deletes(path, [(of.file_path, position) for position in positions])
        return self._file(path, DataFileContent.POSITION_DELETES, len(positions))

    def manifest(
        self, snapshot_id: int, entries: Sequence[Entry], *, added_by: int | None = None, is_denied: bool = False
    ) -> ManifestFile:
        """A manifest of a snapshot to be committed.

        Args:
            snapshot_id: given to entries without one.
            entries: of data files, or of delete files.
            added_by: the snapshot that its list names; None: this one.
            is_denied: True if its list counts no file and no row.
        """
        is_data = all(entry.file.content is DataFileContent.DATA for entry in entries)
        content = ManifestContent.DATA if is_data else ManifestContent.DELETES
        output = self._table.io.new_output(f"file://{self._new('metadata', 'avro')}")
        owner = added_by or snapshot_id
        table = self._table
        with _Manifest(table.spec(), table.schema(), output, owner, "deflate", content=content) as writer:
            for entry in entries:
                writer.add_entry(
                    ManifestEntry.from_args(
                        status=entry.status, snapshot_id=entry.snapshot_id or snapshot_id,
                        sequence_number=entry.sequence_number, file_sequence_number=entry.sequence_number,
                        data_file=entry.file,
                    )
                )  # fmt: skip
        written = writer.to_manifest_file()
        written.sequence_number = self.next_number
        written.min_sequence_number = 0
        if is_denied:
            for slot in _COUNTS:
                written[slot] = 0
        return written

    @property
    def next_number(self) -> int:
        """The sequence number of the next snapshot."""
        return int(self.metadata["last-sequence-number"]) + 1

    def commit(
        self,
        snapshot_id: int,
        manifests: Sequence[ManifestFile],
        *,
        at_ms: int | None = None,
        operation: str = "append",
        is_last: bool = True,
    ) -> int:
        """Makes a snapshot the head of ``main``; returns its id.

        Args:
            snapshot_id: its id.
            manifests: of its list.
            at_ms: its time; None: after all others.
            operation: what it says that it did.
            is_last: False if the same commit has more snapshots.
        """
        number = self.next_number
        location = f"file://{self._new('metadata', 'avro')}"
        parent = self.metadata.get("current-snapshot-id")
        with _ManifestList(self._table.io.new_output(location), snapshot_id, parent, number, "deflate") as written:
            written.add_manifests(list(manifests))
        at = at_ms or max(self.metadata["last-updated-ms"], 1_700_000_000_000) + 1
        snapshot = {
            "snapshot-id": snapshot_id, "sequence-number": number, "timestamp-ms": at, "manifest-list": location,
            "summary": {"operation": operation}, "schema-id": 0,
        } | ({} if parent is None else {"parent-snapshot-id": parent})  # fmt: skip
        self.metadata["snapshots"].append(snapshot)
        self.metadata["last-sequence-number"] = number
        self.move(snapshot_id, at, is_last=is_last)
        return snapshot_id

    def move(self, snapshot_id: int, at_ms: int | None = None, *, is_last: bool = True) -> None:
        """Makes a snapshot the head of ``main``, and writes the metadata with the last one of a commit."""
        at = at_ms or self.metadata["last-updated-ms"] + 1
        self.metadata["snapshot-log"].append({"snapshot-id": snapshot_id, "timestamp-ms": at})
        self.metadata |= {
            "current-snapshot-id": snapshot_id,
            "last-updated-ms": at,
            "refs": {**self.metadata["refs"], "main": {"snapshot-id": snapshot_id, "type": "branch"}},
        }
        if is_last:
            self.write()

    def forget(self, *snapshot_ids: int) -> None:
        """Takes snapshots out of the metadata as if they had never been; their files stay."""
        for key in ("snapshots", "snapshot-log"):
            self.metadata[key] = [each for each in self.metadata[key] if each["snapshot-id"] not in snapshot_ids]
        newest = self.metadata["snapshots"][-1]
        self.metadata["last-sequence-number"] = newest["sequence-number"]
        self.metadata["current-snapshot-id"] = newest["snapshot-id"]

    def write(self) -> None:
        """Writes the metadata and tells the catalog."""
        before = {"metadata-file": self.location, "timestamp-ms": self.metadata["last-updated-ms"]}
        self.metadata["metadata-log"] = [*self.metadata["metadata-log"], before]
        path = self._new("metadata", "metadata.json")
        path.write_text(json.dumps(self.metadata))
        self.location = f"file://{path}"
        self._catalog.drop_table("db.events")
        self._catalog.register_table("db.events", self.location)

    def load(self) -> Table:
        """The table as it is now."""
        return self._catalog.load_table("db.events")

    def state(self, snapshot_id: int, wanted: Collection[int] | None = None) -> Counter[int]:
        """The rows of a snapshot by PyIceberg's scan; only those with wanted ids."""
        found = self.load().scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist()
        return Counter(each for each in found if wanted is None or each in wanted)

    def _file(self, path: Path, content: DataFileContent, rows: int) -> DataFile:
        return DataFile.from_args(
            content=content, file_path=f"file://{path}", file_format=FileFormat.PARQUET, partition=Record(),
            record_count=rows, file_size_in_bytes=path.stat().st_size, _table_format_version=2,
        )  # fmt: skip

    def _new(self, folder: str, suffix: str) -> Path:
        path = self.folder / "warehouse/db/events" / folder / f"{next(self._numbers):05}-x.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _path(self, location: str) -> Path:
        return Path(location.removeprefix("file://"))
