"""The Avro records of manifests and of their lists, by field id, as they are written: nothing is inherited yet.

Writers differ in the types of partition values, which come with their types. Other fields must have those of the
Iceberg spec ("Manifests" and "Manifest lists").
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyiceberg.io import FileIO

from icefloe.iceberg.catalog.file_io import stored_bytes
from icefloe.iceberg.manifests.avro_container import AvroContainer, AvroDecoder, decoding
from icefloe.iceberg.manifests.avro_types import FIELD_ID, row_type
from icefloe.iceberg.unreadable import encrypted_file

__all__ = ["FieldSummary"]


_MAX_BYTES: Final = 256 << 20
_MAX_LIST_BYTES: Final = 128 << 20
_MOST_TIMES: Final = 1_000
"""Bytes of a file; of the blocks of a manifest list, whose rows nothing counts; and by how much deflate can shrink."""

MANIFEST_FIELDS: Final[Mapping[str, int]] = {
    "manifest_path": 500, "partition_spec_id": 502, "added_snapshot_id": 503, "added_files_count": 504,
    "existing_files_count": 505, "deleted_files_count": 506, "partitions": 507, "added_rows_count": 512,
    "existing_rows_count": 513, "sequence_number": 515, "content": 517, "first_row_id": 520,
}  # fmt: skip
"""Field ids of a manifest list that planning reads."""
_DATA_FILE: Final = 2
_PARTITION: Final = 102


def _is_counts(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) and pa.types.is_integer(kind.key_type) and pa.types.is_integer(kind.item_type)


def _is_bounds(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) and pa.types.is_integer(kind.key_type) and pa.types.is_large_binary(kind.item_type)


def _is_numbers(kind: pa.DataType) -> bool:
    return pa.types.is_large_list(kind) and pa.types.is_integer(kind.value_type)


def _is_summaries(kind: pa.DataType) -> bool:
    return pa.types.is_large_list(kind) and _is_record(kind.value_type, _SUMMARY)


def _is_partition(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and not any(pa.types.is_nested(field.type) for field in kind)


def _is_file(kind: pa.DataType) -> bool:
    return _is_record(kind, _FILE)


def _is_record(kind: pa.DataType, kinds: "_Kinds") -> bool:
    """True of a record; ValueError if one of its fields is missing or has another type."""
    if not pa.types.is_struct(kind):
        return False
    found = _kinds_by_id(kind)
    for field_id, is_kind in kinds.items():
        if field_id in found and not is_kind(found[field_id]):
            raise ValueError(
                f"its field {field_id} has the type {found[field_id]}, which the Iceberg spec does not allow"
            )
        if field_id in _REQUIRED and field_id not in found:
            raise ValueError(f"its field {field_id} is missing, which the Iceberg spec requires")
    return True


_number, _text, _bytes = pa.types.is_integer, pa.types.is_large_string, pa.types.is_large_binary
_Kinds = Mapping[int, Callable[[pa.DataType], bool]]
_SUMMARY: Final[_Kinds] = {509: pa.types.is_boolean, 510: _bytes, 511: _bytes}
_FILE: Final[_Kinds] = {
    134: _number, 100: _text, 101: _text, _PARTITION: _is_partition, 103: _number, 104: _number, 110: _is_counts,
    125: _is_bounds, 128: _is_bounds, 131: _bytes, 135: _is_numbers, 142: _number, 143: _text, 144: _number,
    145: _number,
}  # fmt: skip
_ENTRY: Final[_Kinds] = {0: _number, 1: _number, 3: _number, _DATA_FILE: _is_file}
_LIST: Final[_Kinds] = dict.fromkeys(MANIFEST_FIELDS.values(), _number) | {500: _text, 507: _is_summaries}
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
    partition: Mapping[int, tuple[pa.DataType, Any]]  # type and value by partition field id


def read_manifest_list(io: FileIO, location: str) -> list[dict[str, Any]]:
    """The manifests in a list: for each the values of MANIFEST_FIELDS, ``partitions`` as FieldSummary."""
    # Source: https://iceberg.apache.org/spec/#manifest-lists
    found = []
    for row in _Records(io, location, _LIST, most_bytes=_MAX_LIST_BYTES):
        values = {name: row.get(field_id) for name, field_id in MANIFEST_FIELDS.items()}
        values["sequence_number"] = values["sequence_number"] or 0  # lists of V1 tables have none
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
    kinds = _kinds_by_id(_kinds_by_id(_kinds_by_id(records.row.arrow)[_DATA_FILE])[_PARTITION])
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

    def __init__(self, io: FileIO, location: str, kinds: _Kinds, *, most_bytes: int) -> None:
        file = io.new_input(location)
        content = stored_bytes(file, most_bytes=_MAX_BYTES)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES} bytes, the most that icefloe reads")
        # Source: https://iceberg.apache.org/gcm-stream-spec/
        if content.startswith(b"AGS1"):
            raise encrypted_file(location)
        self._left_bytes = min(_MOST_TIMES * len(content), most_bytes)
        self._container = AvroContainer.of(content)
        with decoding():
            self.row = row_type(self._container.schema)
            _is_record(self.row.arrow, kinds)

    def __iter__(self) -> Iterator[dict[int, Any]]:
        for block in self._container.blocks:
            content = self._container.rows(block)
            self._left_bytes -= len(content)
            if self._left_bytes < 0:
                raise ValueError("its blocks hold more than any file of its size and kind does")
            with decoding():
                yield from AvroDecoder(content).rows(block.num_rows, self.row.read)


def _kinds_by_id(record: pa.StructType) -> dict[int, pa.DataType]:
    return {int((field.metadata or {})[FIELD_ID.encode()]): field.type for field in record}
