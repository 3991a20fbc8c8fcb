"""Manifests that are not written, and what the steps over them change."""

from collections.abc import Container
from dataclasses import dataclass, field, replace
from typing import Any

from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import PrimitiveType

from icefloe.iceberg.data_file import DataFile, DeleteFile, FileContent
from icefloe.iceberg.manifests.manifest_avro import FieldSummary
from icefloe.iceberg.manifests.manifest_reader import (
    DELETED_FILE_PATH,
    DataEntry,
    DeleteEntry,
    EntryStatus,
    ManifestFile,
    Partition,
)
from icefloe.iceberg.scan.changed_files import FileTerm
from icefloe.iceberg.scan.compared_states import DataManifests, ListedStates, LiveDeletes
from icefloe.iceberg.step import Step, StepKind

ADDED, EXISTING, DELETED = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED


@dataclass
class FakeReader:
    """Manifests by snapshot and entries by manifest, without files."""

    lists: dict[int, list[ManifestFile]] = field(default_factory=dict)
    entries: dict[str, list[Any]] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)
    key_types: dict[int, PrimitiveType] = field(default_factory=dict)
    partition_types: dict[int, list[PrimitiveType]] = field(default_factory=dict)

    def manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        return tuple(self.lists[snapshot.snapshot_id])

    def data_entries(self, manifest: ManifestFile, paths: Container[str] | None = None) -> list[DataEntry]:
        self.read.append(manifest.path)
        return [entry for entry in self.entries[manifest.path] if paths is None or entry.file.path in paths]

    def delete_entries(self, manifest: ManifestFile) -> tuple[DeleteEntry, ...]:
        self.read.append(manifest.path)
        return tuple(self.entries[manifest.path])

    def write(self, path: str, snapshot_id: int, *entries: DataEntry | DeleteEntry) -> ManifestFile:
        counts = {status: sum(entry.status is status for entry in entries) for status in EntryStatus}
        self.entries[path] = list(entries)
        return ManifestFile(
            path=path,
            spec_id=0,
            holds_deletes=any(isinstance(entry, DeleteEntry) for entry in entries),
            added_snapshot_id=snapshot_id,
            added_files_count=counts[ADDED],
            existing_files_count=counts[EXISTING],
            deleted_files_count=counts[DELETED],
        )


def data(path: str, status: EntryStatus, snapshot_id: int, sequence_number: int = 1, **facts: Any) -> DataEntry:
    known = {
        "path": path, "file_format": "PARQUET", "spec_id": 0, "record_count": 1, "file_size_bytes": 1,
        "sequence_number": sequence_number,
    }  # fmt: skip
    return DataEntry(status=status, snapshot_id=snapshot_id, file=DataFile(**known | facts), partition=(0, ()))


def delete(
    path: str,
    status: EntryStatus,
    snapshot_id: int,
    sequence_number: int,
    *,
    partition: Partition = (0, ()),
    is_unpartitioned: bool = True,
    paths: tuple[str, str] = ("", ""),
    **facts: Any,
) -> DeleteEntry:
    """Position deletes, with bounds of their paths unless these are empty."""
    known = {
        "path": path, "content": FileContent.POSITION_DELETES, "file_format": "PARQUET", "spec_id": partition[0],
        "record_count": 1, "file_size_bytes": 1, "sequence_number": sequence_number,
    }  # fmt: skip
    lower, upper = ({DELETED_FILE_PATH: bound.encode()} if bound else {} for bound in paths)
    return DeleteEntry(
        status=status, snapshot_id=snapshot_id, file=DeleteFile(**known | facts), partition=partition,
        is_unpartitioned=is_unpartitioned, lower_bounds=lower, upper_bounds=upper,
    )  # fmt: skip


def step(kind: StepKind, *snapshot_ids: int, start: int | None = None) -> Step:
    return Step.of(kind, snapshot_ids, timestamp_ms=0, start_snapshot_id=start)


class ReadFiles:
    """Delete files and data files of some steps.

    Attributes:
        data: reads data manifests.
        deletes: of the steps.
    """

    def __init__(self, reader: Any, *steps: Step) -> None:
        # A snapshot comes from the one that is numbered before it, unless that has expired.
        parents = {each: each - 1 for each in reader.lists if each - 1 in reader.lists}
        self.deletes = LiveDeletes.read(steps, ListedStates(reader.lists, parents), reader)
        self.data = DataManifests(reader, self.deletes)

    def terms(self, of: Step) -> list[FileTerm]:
        return list(self.data.terms(of).each())


def weights(reader: FakeReader, of: Step) -> dict[str, int]:
    return {term.entry.file.path: term.weight for term in ReadFiles(reader, of).terms(of)}


def terms(reader: FakeReader, *of: Step) -> list[dict[str, list[tuple[int, list[str]]]]]:
    """For each step by data file (weight, delete files in force)."""
    files = ReadFiles(reader, *of)
    found = []
    for each in of:
        by_path: dict[str, list[tuple[int, list[str]]]] = {}
        found_terms = files.terms(each)
        # Terms are net: one for each file and delete files in force, and none that cancels.
        assert len({(term.entry.file.path, term.delete_files) for term in found_terms}) == len(found_terms)
        assert all(term.weight for term in found_terms)
        for term in found_terms:
            in_force = sorted(files.deletes.index[number].path for number in term.delete_files)
            by_path.setdefault(term.entry.file.path, []).append((term.weight, in_force))
        found.append(by_path)
    return found


def in_partition(entry: Any, value: int) -> Any:
    return replace(entry, partition=(1, (value,)))


def days(manifest: ManifestFile, first: int, last: int) -> ManifestFile:
    lower, upper = (day.to_bytes(4, "little") for day in (first, last))
    summary = FieldSummary(contains_null=False, lower_bound=lower, upper_bound=upper)
    return replace(manifest, spec_id=1, partitions=(summary,))
