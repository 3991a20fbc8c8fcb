"""The Avro records of manifests and of their lists, by field id, as they are written: nothing is inherited yet.

Writers differ in the types of partition values, which come with their types. Other fields must have those of the
Iceberg spec ("Manifests" and "Manifest lists").
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.io import FileIO

from icefloe.iceberg.catalog.file_io import stored_bytes
from icefloe.iceberg.manifests.avro_container import AvroContainer, AvroDecoder, decoding
from icefloe.iceberg.manifests.avro_types import AvroType, row_type
from icefloe.iceberg.unreadable import encrypted_file

__all__ = ["FieldSummary"]


_MAX_BYTES: Final = 256 << 20
_MAX_LIST_BYTES: Final = 128 << 20
_MOST_TIMES: Final = 1_000
"""Bytes of a file; of the blocks of a manifest list, whose rows nothing counts; and by how much deflate can shrink."""

MANIFEST_FIELDS: Final[Mapping[str, int]] = {
    "path": 500, "spec_id": 502, "added_snapshot_id": 503, "added_files_count": 504,
    "existing_files_count": 505, "deleted_files_count": 506, "partitions": 507, "added_rows_count": 512,
    "existing_rows_count": 513, "sequence_number": 515, "holds_deletes": 517, "first_row_id": 520,
}  # fmt: skip
"""Field ids of a manifest list by the names of ManifestFile."""
_DATA_FILE: Final = 2
_PARTITION: Final = 102


_COUNTS, _BOUNDS = "map<number,number>", "map<number,bytes>"
_SUMMARY: Final = {509: "boolean", 510: "bytes", 511: "bytes"}
_FILE: Final = {
    134: "number", 100: "string", 101: "string", _PARTITION: "record", 103: "number", 104: "number", 110: _COUNTS,
    125: _BOUNDS, 128: _BOUNDS, 131: "bytes", 135: "array<number>", 142: "number", 143: "string", 144: "number",
    145: "number",
}  # fmt: skip
_ENTRY: Final = {0: "number", 1: "number", 3: "number", _DATA_FILE: "record"}
_LIST: Final = dict.fromkeys(MANIFEST_FIELDS.values(), "number") | {500: "string", 507: "array<record>"}
"""Kinds of types by field id."""
_REQUIRED: Final = frozenset({0, _DATA_FILE, 100, 101, _PARTITION, 103, 104, 500, 502, 509})


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSummary:
    """Summary of one partition field over the files of a manifest.

    Attributes:
        lower_bound: like the upper one of values other than null and NaN, in the binary single-value form; None if
            there are none.
    """

    contains_null: bool
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawEntry:
    """One manifest entry."""

    status: int  # 0 EXISTING, 1 ADDED, 2 DELETED
    snapshot_id: int | None  # that added or deleted the file; None is inherited
    sequence_number: int | None
    file: Mapping[int, Any]  # the ``data_file`` struct by field id; None if the manifest lacks a field
    partition: Mapping[int, tuple[str, Any]]  # kind of its Avro type, and value, by partition field id


def read_manifest_list(io: FileIO, location: str) -> list[dict[str, Any]]:
    """The manifests in a list: for each the values of MANIFEST_FIELDS, ``partitions`` as FieldSummary."""
    # Source: https://iceberg.apache.org/spec/#manifest-lists
    records = _Records(io, location, _LIST, most_bytes=_MAX_LIST_BYTES)
    if 507 in records.row.fields:
        _require_kinds(records.row.fields[507], _SUMMARY)
    found = []
    for row in records:
        values = {name: row.get(field_id) for name, field_id in MANIFEST_FIELDS.items()}
        # Lists of V1 tables have none.
        values |= {"sequence_number": values["sequence_number"] or 0, "holds_deletes": bool(values["holds_deletes"])}
        if values["partitions"] is not None:
            values["partitions"] = tuple(
                FieldSummary(contains_null=each[509], lower_bound=each.get(510), upper_bound=each.get(511))
                for each in values["partitions"]
            )
        found.append(values)
    return found


def read_manifest_entries(io: FileIO, location: str) -> Iterator[RawEntry]:
    """Every entry of a manifest, DELETED ones too."""
    # Source: https://iceberg.apache.org/spec/#manifests
    records = _Records(io, location, _ENTRY, most_bytes=sys.maxsize)
    file_type = records.row.fields[_DATA_FILE]
    _require_kinds(file_type, _FILE)
    kinds = {field_id: each.kind for field_id, each in file_type.fields[_PARTITION].fields.items()}
    if any(kind == "record" or kind.endswith(">") for kind in kinds.values()):
        raise ValueError("its partitions have values of nested types, which the Iceberg spec does not allow")
    nothing = dict.fromkeys(_FILE)
    for row in records:
        file = nothing | row[_DATA_FILE]
        yield RawEntry(
            status=row[0],
            snapshot_id=row.get(1),
            sequence_number=row.get(3),
            file=file,
            partition={field_id: (kinds[field_id], value) for field_id, value in file[_PARTITION].items()},
        )


class _Records:
    """The records of a file whose fields have the types of the Iceberg spec."""

    def __init__(self, io: FileIO, location: str, kinds: Mapping[int, str], *, most_bytes: int) -> None:
        content = stored_bytes(io.new_input(location), most_bytes=_MAX_BYTES)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES} bytes, the most that icefloe reads")
        # Source: https://iceberg.apache.org/gcm-stream-spec/
        if content.startswith(b"AGS1"):
            raise encrypted_file(location)
        self._left_bytes = min(_MOST_TIMES * len(content), most_bytes)
        with decoding():
            self._container = AvroContainer(content)
        self.row = row_type(self._container.schema)
        _require_kinds(self.row, kinds)

    def __iter__(self) -> Iterator[dict[int, Any]]:
        with decoding():
            for num_rows, content in self._container.blocks():
                self._left_bytes -= len(content)
                if self._left_bytes < 0:
                    raise ValueError("its blocks hold more than any file of its size and kind does")
                yield from AvroDecoder(content).rows(num_rows, self.row.read)


def _require_kinds(record: AvroType, kinds: Mapping[int, str]) -> None:
    """Raise if a field is missing or has another type."""
    for field_id, kind in kinds.items():
        found = record.fields.get(field_id)
        if found is not None and found.kind != kind:
            raise ValueError(f"its field {field_id} has the type {found.kind}, which the Iceberg spec does not allow")
        if found is None and field_id in _REQUIRED:
            raise ValueError(f"its field {field_id} is missing, which the Iceberg spec requires")
