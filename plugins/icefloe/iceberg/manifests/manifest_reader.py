"""Reading a table's manifest lists and manifests, several at a time."""

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import Any, Final, TypeVar

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import PrimitiveType

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.catalog_errors import reading_metadata
from icefloe.iceberg.catalog.file_io import exact
from icefloe.iceberg.manifests.manifest_entries import (
    DataEntry,
    DeleteEntry,
    ManifestFile,
    data_entries,
    delete_entries,
)
from icefloe.iceberg.manifests.manifest_values import KeyTypes, key_types, partition_types
from icefloe.iceberg.manifests.pyiceberg_avro import RawEntry, read_manifest_entries, read_manifest_list
from icefloe.iceberg.table import table_name
from icefloe.iceberg.unreadable import encrypted_file

__all__ = ["ManifestReader"]

_FILE_PATH: Final = 100
_KEY_METADATA: Final = 131
"""Decoding holds the GIL: more threads only help if a store is slow to answer."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class ManifestReader:
    """Reads manifests of one table; keeps manifest lists and delete files.

    Args:
        table: its io, specs and name are used, never its catalog.
    """

    def __init__(self, table: Table) -> None:
        self._io = exact(table.io)
        self._schemas = table.metadata.schemas
        self._specs = table.metadata.specs()
        self._table_name = table_name(table)
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
                found = tuple(_manifest(snapshot.snapshot_id, dict(row)) for row in fields)
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
    return ManifestFile(
        path=fields.pop("manifest_path"),
        spec_id=fields.pop("partition_spec_id"),
        holds_deletes=bool(fields.pop("content")),
        added_snapshot_id=snapshot_id if (added := fields.pop("added_snapshot_id")) is None else added,
        **fields,
    )
