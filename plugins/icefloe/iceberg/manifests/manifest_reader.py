"""A table's manifest lists and manifests, read as values; fields left out are inherited.

Source: https://iceberg.apache.org/spec/#sequence-number-inheritance and #first-row-id-inheritance
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from threading import Lock
from typing import Any, Final

from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import PrimitiveType

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.catalog_errors import reading_metadata
from icefloe.iceberg.data_file import Constant, DataFile, DeleteFile, FileContent
from icefloe.iceberg.manifests.manifest_avro import FieldSummary, RawEntry, read_manifest_entries, read_manifest_list
from icefloe.iceberg.manifests.manifest_values import KeyTypes, key_types, partition_types, partition_value
from icefloe.iceberg.unreadable import UndecodableError, encrypted_file

__all__ = [
    "DELETED_FILE_PATH",
    "DataEntry",
    "DeleteEntry",
    "DeleteId",
    "EntryStatus",
    "ManifestFile",
    "ManifestReader",
    "Partition",
]

Partition = tuple[int, tuple[Constant, ...]]
"""A spec id and the partition values of that spec."""
DeleteId = tuple[str, int | None]
"""The path of a delete file and, for a deletion vector, its offset: several share a file."""

DELETED_FILE_PATH: Final = 2147483546
"""The reserved field id of the data file's path in a position delete file."""

_NEVER_CUT: Final = (".avro", ".orc", ".parquet")
"""Ends of whole paths."""

_CONTENT: Final = 134
_FILE_PATH: Final = 100
_FILE_FORMAT: Final = 101
_RECORD_COUNT: Final = 103
_FILE_SIZE: Final = 104
_NULL_VALUE_COUNTS: Final = 110
_LOWER_BOUNDS: Final = 125
_UPPER_BOUNDS: Final = 128
_KEY_METADATA: Final = 131
_EQUALITY_IDS: Final = 135
_FIRST_ROW_ID: Final = 142
_REFERENCED_DATA_FILE: Final = 143
_CONTENT_OFFSET: Final = 144
_CONTENT_SIZE: Final = 145


class EntryStatus(IntEnum):
    """Status of a file, numbered as in the Iceberg spec."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One line of a manifest list; counts are None if a V1 writer left them out.

    Attributes:
        path: the same path always has the same content, except for inherited fields.
        sequence_number: inherited by its added files; 0 in V1 tables.
        first_row_id: in V3 tables, the first ``_row_id`` of its data files without one.
    """

    path: str
    spec_id: int
    holds_deletes: bool
    added_snapshot_id: int
    sequence_number: int = 0
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    first_row_id: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None

    @property
    def live_rows(self) -> int | None:
        """Rows in its live files; None if the writer did not say."""
        if self.added_rows_count is None or self.existing_rows_count is None:
            return None
        return self.added_rows_count + self.existing_rows_count

    @property
    def entries_count(self) -> int | None:
        """Number of all its entries; None if the writer did not say."""
        counts = (self.added_files_count, self.existing_files_count, self.deleted_files_count)
        return None if None in counts else sum(count for count in counts if count is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """Facts of a file in a manifest that only the planner needs; mappings are by field id."""

    status: EntryStatus
    file: DataFile | DeleteFile
    snapshot_id: int  # that added or deleted it, as written (older PyIceberg: the adding one for both)
    partition: Partition
    # Binary single-value form of the spec, perhaps cut; bounds of position deletes are of the paths.
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)
    null_value_counts: Mapping[int, int] = field(default_factory=dict)  # a missing column may hold nulls


@dataclass(frozen=True, slots=True, kw_only=True)
class DataEntry(_Entry):
    """A data file in a manifest."""

    file: DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEntry(_Entry):
    """A delete file in a manifest.

    Attributes:
        is_unpartitioned: its spec has no fields, which makes equality deletes global.
    """

    file: DeleteFile
    is_unpartitioned: bool

    @property
    def identity(self) -> DeleteId:
        """Key that no other delete file of the table has."""
        return self.file.path, self.file.content_offset

    @property
    def only_data_file(self) -> str | None:
        """The only data file of position deletes, if their reference or path bounds say so."""
        deletes = self.file
        if deletes.content is FileContent.EQUALITY_DELETES:
            return None
        if deletes.referenced_data_file is not None:
            return deletes.referenced_data_file
        lower = self.lower_bounds.get(DELETED_FILE_PATH)
        if lower is None or lower != self.upper_bounds.get(DELETED_FILE_PATH):
            return None
        return lower.decode(errors="ignore")

    @property
    def may_name_others(self) -> bool:
        """False if ``only_data_file`` is a whole path: equal bounds may be how several paths begin."""
        name = self.only_data_file
        return name is None or (self.file.referenced_data_file is None and not name.endswith(_NEVER_CUT))


class ManifestReader:
    """Reads manifests of one table; keeps manifest lists and delete files."""

    def __init__(self, metadata: TableMetadata, io: FileIO, *, table: str) -> None:
        self._io = io
        self._schemas = metadata.schemas
        self._specs = metadata.specs()
        self._table_name = table
        self._lists: dict[int, tuple[ManifestFile, ...]] = {}
        self._delete_entries: dict[str, tuple[DeleteEntry, ...]] = {}
        self._lock = Lock()
        self.manifests_read = 0

    @cached_property
    def key_types(self) -> KeyTypes:
        """Types in which key bounds are compared, by field id."""
        return key_types(self._schemas)

    @cached_property
    def partition_types(self) -> Mapping[int, Sequence[PrimitiveType | None]]:
        """Types of partition values, by spec id; None if unknown."""
        return partition_types(self._specs, self._schemas)

    def manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """The manifests of a snapshot, in the order of its list."""
        found = self._lists.get(snapshot.snapshot_id)
        if found is None:
            what = f"manifest list of snapshot {snapshot.snapshot_id}"
            with reading_metadata(self._table_name, what, snapshot.manifest_list):
                fields = read_manifest_list(self._io, snapshot.manifest_list)
                found = tuple(_manifest(snapshot.snapshot_id, row) for row in fields)
            self._lists[snapshot.snapshot_id] = found
        return found

    def data_entries(self, manifest: ManifestFile, paths: Container[str] | None = None) -> list[DataEntry]:
        """All entries, DELETED ones too, or those of some data files; raises as ``manifests``."""
        with reading_metadata(self._table_name, "manifest", manifest.path):
            spec, types = self._spec(manifest), self.partition_types[manifest.spec_id]
            return list(data_entries(manifest, self._raw_entries(manifest), spec, types, paths))

    def delete_entries(self, manifest: ManifestFile) -> tuple[DeleteEntry, ...]:
        """Every entry, DELETED ones too; raises as ``manifests``."""
        found = self._delete_entries.get(manifest.path)
        if found is None:
            with reading_metadata(self._table_name, "manifest", manifest.path):
                spec, types = self._spec(manifest), self.partition_types[manifest.spec_id]
                found = tuple(delete_entries(manifest, self._raw_entries(manifest), spec, types))
            self._delete_entries[manifest.path] = found
        return found

    def _raw_entries(self, manifest: ManifestFile) -> Iterator[RawEntry]:
        expected, found = manifest.entries_count, 0
        for found, raw in enumerate(read_manifest_entries(self._io, manifest.path), 1):
            if raw.file[_KEY_METADATA]:
                raise encrypted_file(raw.file[_FILE_PATH])
            # No further one is decoded: a few bytes may be millions of entries.
            if expected is not None and found > expected:
                break
            yield raw
        with self._lock:
            self.manifests_read += 1
        # PyIceberg takes a truncated file for a complete one.
        if expected is not None and found != expected:
            raise TerminalError(
                f"manifest {manifest.path} of table {self._table_name} is damaged: its manifest list says that it has "
                f"{expected} entries, found {found if found < expected else 'more'}"
            )

    def _spec(self, manifest: ManifestFile) -> PartitionSpec:
        try:
            return self._specs[manifest.spec_id]
        except KeyError:
            raise TerminalError(
                f"manifest {manifest.path} of table {self._table_name} uses partition spec {manifest.spec_id}, which "
                f"the table does not have (it has {sorted(self._specs)})"
            ) from None


def _manifest(snapshot_id: int, fields: dict[str, Any]) -> ManifestFile:
    inherited = {"added_snapshot_id": snapshot_id} if fields["added_snapshot_id"] is None else {}
    return ManifestFile(**fields | inherited)


def data_entries(
    manifest: ManifestFile,
    raw_entries: Iterable[RawEntry],
    spec: PartitionSpec,
    types: Sequence[PrimitiveType | None],
    paths: Container[str] | None = None,
) -> Iterator[DataEntry]:
    """In the manifest's order, with inherited ids and numbers."""
    next_row_id = manifest.first_row_id
    for raw in raw_entries:
        # With 100 in the manifest list, entries of 10 rows, 5 rows (DELETED) and 20 rows begin at 100, none and 110.
        # A file keeps the number of its entry, also if the list has none. Files that are not wanted count, too.
        first_row_id = raw.file[_FIRST_ROW_ID]
        if next_row_id is not None and first_row_id is None and raw.status != EntryStatus.DELETED:
            first_row_id = next_row_id
            next_row_id += raw.file[_RECORD_COUNT]
        if paths is not None and raw.file[_FILE_PATH] not in paths:
            continue
        of_entry, of_file = _facts(manifest, raw, spec, types)
        yield DataEntry(**of_entry, file=DataFile(**of_file, first_row_id=first_row_id))


def delete_entries(
    manifest: ManifestFile,
    raw_entries: Iterable[RawEntry],
    spec: PartitionSpec,
    types: Sequence[PrimitiveType | None],
) -> Iterator[DeleteEntry]:
    """As ``data_entries``."""
    for raw in raw_entries:
        file = raw.file
        if raw.sequence_number is None and not _may_inherit(manifest, raw):
            # Under the number 0 it would reach no row of the state before its snapshot, so rows that it had deleted
            # would be delivered again.
            raise UndecodableError(
                f"delete file {file[_FILE_PATH]} is {EntryStatus(raw.status).name} there without a sequence number"
            )
        if file[_FILE_FORMAT].upper() == "PUFFIN" and file[_REFERENCED_DATA_FILE] is None:
            raise UndecodableError(f"deletion vector {file[_FILE_PATH]} names no data file there")
        if file[_CONTENT] == FileContent.EQUALITY_DELETES and not file[_EQUALITY_IDS]:
            raise UndecodableError(f"equality delete file {file[_FILE_PATH]} names no column there")
        of_entry, of_file = _facts(manifest, raw, spec, types)
        yield DeleteEntry(
            **of_entry,
            file=DeleteFile(
                **of_file,
                content=FileContent(file[_CONTENT] or 0),
                referenced_data_file=file[_REFERENCED_DATA_FILE],
                content_offset=file[_CONTENT_OFFSET],
                content_size_bytes=file[_CONTENT_SIZE],
                equality_field_ids=tuple(file[_EQUALITY_IDS] or ()),
            ),
            # A partition field that was dropped stays in the specs of V1 tables, as void.
            is_unpartitioned=all(isinstance(f.transform, VoidTransform) for f in spec.fields),
        )


def _facts(
    manifest: ManifestFile, raw: RawEntry, spec: PartitionSpec, types: Sequence[PrimitiveType | None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of an entry, and of its file."""
    values = _partition_values(raw, spec, types)
    counts = raw.file[_NULL_VALUE_COUNTS] or ()
    # For a data file that may not inherit 0 is the cautious answer: every delete file applies.
    inherited = manifest.sequence_number if _may_inherit(manifest, raw) else 0
    return {
        "status": EntryStatus(raw.status),
        "snapshot_id": manifest.added_snapshot_id if raw.snapshot_id is None else raw.snapshot_id,
        "partition": (manifest.spec_id, tuple(values)),
        "lower_bounds": raw.file[_LOWER_BOUNDS] or {},
        "upper_bounds": raw.file[_UPPER_BOUNDS] or {},
        "null_value_counts": dict(zip(counts[::2], counts[1::2], strict=True)),
    }, {
        "path": raw.file[_FILE_PATH],
        "file_format": raw.file[_FILE_FORMAT].upper(),
        "spec_id": manifest.spec_id,
        "record_count": raw.file[_RECORD_COUNT],
        "file_size_bytes": raw.file[_FILE_SIZE],
        "constants": {
            str(part.source_id): value
            for part, value in zip(spec.fields, values, strict=True)
            if isinstance(part.transform, IdentityTransform)
        },
        "sequence_number": inherited if raw.sequence_number is None else raw.sequence_number,
    }


def _partition_values(raw: RawEntry, spec: PartitionSpec, types: Sequence[PrimitiveType | None]) -> list[Constant]:
    """In the spec's order, which a manifest need not have."""
    # One partition must not have two values: what one manifest deletes in it would reach no file of another.
    found: list[Constant] = []
    for part, kind in zip(spec.fields, types, strict=True):
        found.append(None)
        given = raw.partition.get(part.field_id)
        if given is not None and not isinstance(part.transform, VoidTransform):
            try:
                found[-1] = partition_value(kind, *given)
            except (ArithmeticError, TypeError, ValueError):
                raise UndecodableError(
                    f"file {raw.file[_FILE_PATH]} has a value of type {given[0]} in partition field {part.name!r}, "
                    f"which does not fit {kind}"
                ) from None
    return found


def _may_inherit(manifest: ManifestFile, raw: RawEntry) -> bool:
    return raw.status == EntryStatus.ADDED or manifest.sequence_number == 0
