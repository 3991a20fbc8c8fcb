"""Tables with thousands of files and snapshots, made in seconds: their metadata is written without commits."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

__all__ = ["SCHEMA", "MadeUpTable"]

SCHEMA: Final = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "value", LongType()),
    NestedField(3, "word", StringType()),
    identifier_field_ids=[1],
)
_FIRST_SNAPSHOT: Final = 7_000_000_000_000
_FIRST_TIME_MS: Final = 1_700_000_000_000


class _DeleteManifestWriter(ManifestWriterV2):
    """PyIceberg writes manifests of data files only."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES


class MadeUpTable:
    """A table whose snapshots are appended one after another.

    Args:
        folder: place of the table; its files need not exist if nothing reads them.
        spec: its only partition spec.
    """

    def __init__(self, folder: Path, spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC) -> None:
        self._folder = folder
        self._spec = spec
        self._io = PyArrowFileIO()
        self._manifests: list[ManifestFile] = []
        self._snapshots: list[dict[str, Any]] = []
        (folder / "metadata").mkdir(parents=True)

    def append(self, files: Sequence[DataFile], *, files_per_manifest: int = 10_000, is_listed: bool = True) -> None:
        """A snapshot that adds data files or delete files, but not both.

        Args:
            files: files that it adds.
            files_per_manifest: the most files in a manifest.
            is_listed: False: the snapshot's own manifest list is not written, as nothing reads it.
        """
        number = len(self._snapshots) + 1
        for start in range(0, len(files), files_per_manifest):
            self._manifests.insert(0, self._manifest(files[start : start + files_per_manifest], number, start))
        manifest_list = self._place(f"list-{number}.avro")
        parent = _FIRST_SNAPSHOT + number - 1 if number > 1 else None
        output = self._io.new_output(manifest_list)
        if is_listed:
            with write_manifest_list(2, output, _FIRST_SNAPSHOT + number, parent, number, "deflate") as manifests:
                manifests.add_manifests(self._manifests)
        # In the list they have their sequence number; so does the next list.
        for manifest in self._manifests:
            if manifest.sequence_number < 0:
                manifest.sequence_number = manifest.min_sequence_number = number
        operation = "append" if files[0].content == DataFileContent.DATA else "delete"
        summary = {"operation": operation}
        if operation == "append":
            summary["added-records"] = str(sum(file.record_count for file in files))
        snapshot = {
            "snapshot-id": _FIRST_SNAPSHOT + number,
            "sequence-number": number,
            "timestamp-ms": _FIRST_TIME_MS + number,
            "manifest-list": manifest_list,
            "summary": summary,
            "schema-id": 0,
        }
        self._snapshots.append(snapshot | ({} if parent is None else {"parent-snapshot-id": parent}))

    def load(self) -> StaticTable:
        """The table, loaded from its metadata file."""
        last = self._snapshots[-1]
        metadata = {
            "format-version": 2,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": self._folder.as_uri(),
            "last-sequence-number": last["sequence-number"],
            "last-updated-ms": last["timestamp-ms"],
            "last-column-id": 3,
            "current-schema-id": 0,
            "schemas": [json.loads(SCHEMA.model_dump_json()) | {"schema-id": 0}],
            "default-spec-id": 0,
            "partition-specs": [json.loads(self._spec.model_dump_json())],
            "last-partition-id": 999,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {},
            "current-snapshot-id": last["snapshot-id"],
            "snapshots": self._snapshots,
            "snapshot-log": [
                {"snapshot-id": each["snapshot-id"], "timestamp-ms": each["timestamp-ms"]} for each in self._snapshots
            ],
            "metadata-log": [],
            "refs": {"main": {"snapshot-id": last["snapshot-id"], "type": "branch"}},
        }
        place = self._folder / "metadata" / "00000.metadata.json"
        place.write_text(json.dumps(metadata))
        return StaticTable.from_metadata(place.as_uri())

    def _manifest(self, files: Sequence[DataFile], number: int, start: int) -> ManifestFile:
        kind = ManifestWriterV2 if files[0].content == DataFileContent.DATA else _DeleteManifestWriter
        output = self._io.new_output(self._place(f"manifest-{number}-{start}.avro"))
        snapshot_id = _FIRST_SNAPSHOT + number
        with kind(self._spec, SCHEMA, output, snapshot_id, "deflate") as writer:
            for file in files:
                writer.add(
                    ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file)
                )
        return writer.to_manifest_file()

    def _place(self, name: str) -> str:
        return (self._folder / "metadata" / name).as_uri()

    @staticmethod
    def file(
        path: Path, *, rows: int, ids: tuple[int, int], is_delete: bool = False, partition: Record | None = None
    ) -> DataFile:
        """A Parquet data file or, of the key ``id``, an equality delete file.

        Args:
            path: its place; a file that is not there counts as 10 bytes a row.
            rows: number of its rows.
            ids: least and greatest id.
            is_delete: True if its ids are deleted.
            partition: values of the spec's fields; None: it has none.
        """
        bounds = [value.to_bytes(8, "little", signed=True) for value in ids]
        return DataFile.from_args(
            content=DataFileContent.EQUALITY_DELETES if is_delete else DataFileContent.DATA,
            file_path=path.as_uri(),
            file_format=FileFormat.PARQUET,
            partition=partition or Record(),
            record_count=rows,
            file_size_in_bytes=path.stat().st_size if path.exists() else 10 * rows,
            value_counts={1: rows},
            null_value_counts={1: 0},
            lower_bounds={1: bounds[0]},
            upper_bounds={1: bounds[1]},
            equality_ids=[1] if is_delete else None,
            _table_format_version=2,
        )
