"""PyIceberg's private parts that planning needs, pinned to 0.12.0 by tests/iceberg/manifests/test_pyiceberg_avro.py.

PyIceberg's manifest readers project to the V2 schema, without ``first_row_id``, ``referenced_data_file`` and the place
of a deletion vector. This file uses the V3 schemas, which also read V1 and V2, and looks slots up by field id (Iceberg
spec, "Manifests" and "Manifest lists").

They also turn doubles into floats, so that different partitions look like one. They cannot open manifests with
nanoseconds, or with two decimals, uuids or fixed values of one type among the partition fields. They read manifests of
Iceberg's Java library past their end if partitions have fixed values (apache/iceberg 17501): Java writes the length
before the value, which Avro does not.

And they decompress blocks without a limit, and trust lengths: a malicious manifest ends the process, or puts its
memory into a path.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from struct import Struct
from typing import Any, Final, Self, cast

from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder
from pyiceberg.avro.file import SYNC_SIZE, AvroFile, Block
from pyiceberg.avro.reader import DoubleReader, FixedReader, Reader
from pyiceberg.avro.resolver import ReadSchemaResolver, SchemaPartnerAccessor
from pyiceberg.io import FileIO
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, MANIFEST_LIST_FILE_SCHEMAS
from pyiceberg.schema import Schema, visit_with_partner
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DoubleType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
)
from pyiceberg.utils.decimal import decimal_required_bytes
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from icefloe.iceberg.catalog.file_io import stored_bytes
from icefloe.iceberg.files.avro_container import decoding, decompressed
from icefloe.iceberg.unreadable import encrypted_file

__all__ = ["FieldSummary"]


_MANIFEST_ENTRY: Final[Schema] = MANIFEST_ENTRY_SCHEMAS[3]
_MANIFEST_LIST: Final[Schema] = MANIFEST_LIST_FILE_SCHEMAS[3]

MANIFEST_FIELDS: Final[Mapping[str, int]] = {
    "manifest_path": 500, "partition_spec_id": 502, "added_snapshot_id": 503, "added_files_count": 504,
    "existing_files_count": 505, "deleted_files_count": 506, "partitions": 507, "added_rows_count": 512,
    "existing_rows_count": 513, "sequence_number": 515, "content": 517, "first_row_id": 520,
}  # fmt: skip
"""Field ids of a manifest list that planning reads."""

SUMMARY_FIELDS: Final[Mapping[str, int]] = {"contains_null": 509, "lower_bound": 510, "upper_bound": 511}
"""Field ids of a manifest list's summary of one partition field."""

_ENTRY_FIELDS: Final[Mapping[str, int]] = {
    "status": 0, "snapshot_id": 1, "sequence_number": 3, "file_sequence_number": 4,
}  # fmt: skip
_DOUBLE: Final = Struct("<d")
_DATA_FILE: Final = 2
_MAX_BYTES: Final = 256 << 20
_MAX_LIST_BYTES: Final = 128 << 20
_MOST_TIMES: Final = 1_000
"""Bytes of a file; of the blocks of a manifest list, whose rows nothing counts; and by how much deflate can shrink."""
_PARTITION: Final = 102


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
    """One manifest entry as it is written: nothing inherited yet.

    Attributes:
        status: 0 EXISTING, 1 ADDED, 2 DELETED.
        snapshot_id: that added or deleted the file; None is inherited.
        file: the ``data_file`` struct by field id.
        partition: (partition field id, type, value) in the order of the spec.
    """

    status: int
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    file: Mapping[int, Any]
    partition: Sequence[tuple[int, PrimitiveType, object]]


def read_manifest_list(io: FileIO, location: str) -> list[dict[str, object]]:
    """The manifests in a list: for each the values of MANIFEST_FIELDS, ``partitions`` as FieldSummary.

    Source: https://iceberg.apache.org/spec/#manifest-lists
    """
    slots = _slots(_MANIFEST_LIST.as_struct())
    wanted = {name: slots[field_id] for name, field_id in MANIFEST_FIELDS.items()}
    with _MetadataFile(io.new_input(location), _MANIFEST_LIST) as rows:
        found = [{name: row[slot] for name, slot in wanted.items()} for row in rows]
    return [values | {"partitions": _summaries(values["partitions"])} for values in found]


def _summaries(written: Sequence[Record] | None) -> tuple[FieldSummary, ...] | None:
    if written is None:
        return None
    slots = _slots(_summary_struct())
    wanted = {name: slots[field_id] for name, field_id in SUMMARY_FIELDS.items()}
    return tuple(FieldSummary(**{name: summary[slot] for name, slot in wanted.items()}) for summary in written)


@cache
def _summary_struct() -> StructType:
    summaries = _MANIFEST_LIST.find_field(MANIFEST_FIELDS["partitions"]).field_type
    if not isinstance(summaries, ListType) or not isinstance(summaries.element_type, StructType):
        raise TypeError(f"the partitions of a manifest list are structs by the Iceberg spec, found {summaries}")
    return summaries.element_type


def read_manifest_entries(io: FileIO, location: str) -> Iterator[RawEntry]:
    """Every entry of a manifest, DELETED ones too.

    Source: https://iceberg.apache.org/spec/#manifests
    """
    slots = _slots(_MANIFEST_ENTRY.as_struct())
    wanted = {name: slots[field_id] for name, field_id in _ENTRY_FIELDS.items()}
    file_slots = _slots(_struct_field(_MANIFEST_ENTRY.as_struct(), _DATA_FILE))
    with _MetadataFile(io.new_input(location), _MANIFEST_ENTRY) as rows:
        partition_types = _struct_field(_struct_field(rows.schema.as_struct(), _DATA_FILE), _PARTITION).fields
        for row in rows:
            values = row[slots[_DATA_FILE]]
            file = {field_id: values[slot] for field_id, slot in file_slots.items()}
            partition = [(f.field_id, _primitive(f), file[_PARTITION][i]) for i, f in enumerate(partition_types)]
            yield RawEntry(**{name: row[slot] for name, slot in wanted.items()}, file=file, partition=partition)


class _MetadataFile(AvroFile[Record]):
    """PyIceberg's reader of manifests and their lists, for every partition type."""

    def __enter__(self) -> Self:
        content = stored_bytes(self.input_file, most_bytes=_MAX_BYTES)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES} bytes, the most that icefloe reads")
        is_list = self.read_schema is _MANIFEST_LIST
        self._left_bytes = min(_MOST_TIMES * len(content), _MAX_LIST_BYTES if is_list else sys.maxsize)
        # Source: https://iceberg.apache.org/gcm-stream-spec/
        if content.startswith(b"AGS1"):
            raise encrypted_file(self.input_file.location)
        self.decoder = MetadataDecoder(content)
        self.header = self._read_header()
        resolved = _resolved(self.header.meta["avro.schema"], is_list=is_list)
        self.schema, self.reader, self._reader_of_java = resolved
        return self

    def __next__(self) -> Record:
        row = super().__next__()
        if self.block is not None:
            cast("MetadataDecoder", self.block.block_decoder).check()
        return row

    def _read_block(self) -> int:
        # The marker after a block is read when the next one is asked for.
        if self.block is not None and self.decoder.read(SYNC_SIZE) != self.header.sync:
            raise ValueError("a block does not have the size that it says")
        if cast("MetadataDecoder", self.decoder).is_at_end:
            raise EOFError("there is no further block")  # the way to end the iteration
        with decoding():
            count, content = self.decoder.read_int(), self.decoder.read_bytes()
            data = decompressed(content, self.header.meta.get(AVRO_CODEC_KEY, "null"))
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            raise ValueError("its blocks hold more than any file of its size and kind does")
        reader = self.reader
        # The file does not say who wrote it. Read by the wrong rule, a block does not end where its bytes do.
        if self._reader_of_java is not None:
            readers = (self.reader, self._reader_of_java)
            reader = next((each for each in readers if _fits(each, data, count)), self._reader_of_java)
        self.block = Block(reader=reader, block_records=count, block_decoder=MetadataDecoder(data))
        return count


def _fits(reader: Reader, data: bytes, count: int) -> bool:
    """True if the rows end exactly at the end of the bytes."""
    decoder = MetadataDecoder(data)
    try:
        for _ in range(count):
            reader.read(decoder)
    except Exception:  # noqa: BLE001 - whatever a misread length leads to
        return False
    return decoder.tell() == len(data)


@lru_cache(maxsize=64)
def _resolved(avro_schema: str, *, is_list: bool) -> tuple[Schema, Reader, Reader | None]:
    """With a reader for fixed values as Java writes them, if there are any."""
    schema = _SchemaConversion().avro_to_iceberg(json.loads(avro_schema))
    readers, java_readers, accessor = _ExactReaders(), _JavaReaders(), SchemaPartnerAccessor()
    read_schema = _MANIFEST_LIST if is_list else _MANIFEST_ENTRY
    reader, reader_of_java = (
        visit_with_partner(schema, read_schema, each, accessor)  # type: ignore[misc]
        for each in (readers, java_readers)
    )
    return schema, reader, reader_of_java if java_readers.has_met_fixed else None


class _SchemaConversion(AvroSchemaConversion):
    def __init__(self) -> None:
        self._named: dict[str, IcebergType] = {}
        self._counts: dict[int, int] = {}

    def avro_to_iceberg(self, avro_schema: dict[str, Any]) -> Schema:
        fields = [self._convert_field(field) for field in avro_schema["fields"]]
        field_count(StructType(*fields), self._counts)
        return Schema(*fields)

    def _convert_schema(self, avro_type: Any) -> IcebergType:
        if isinstance(avro_type, str) and avro_type in self._named:
            return self._named[avro_type]
        found = super()._convert_schema(avro_type)
        if isinstance(found, StructType):
            field_count(found, self._counts)
        if isinstance(avro_type, dict) and "name" in avro_type:
            self._named[avro_type["name"]] = found
        return found

    def _convert_logical_type(self, avro_logical_type: dict[str, Any]) -> IcebergType:
        # Avro's own names for times without a zone begin with local.
        avro = avro_logical_type | {"logicalType": avro_logical_type["logicalType"].removeprefix("local-")}
        if avro["logicalType"] == "timestamp-nanos":
            return TimestamptzNanoType() if avro.get("adjust-to-utc") else TimestampNanoType()
        if _has_other_bytes(avro):
            return self._convert_schema({key: value for key, value in avro.items() if key != "logicalType"})
        return super()._convert_logical_type(avro)


def _has_other_bytes(avro: Mapping[str, Any]) -> bool:
    """True if they are not those that PyIceberg expects for the logical type."""
    match avro["logicalType"]:
        case "decimal":
            return bool(avro.get("size") != decimal_required_bytes(avro["precision"]))
        case "uuid":
            return bool(avro["type"] != "fixed")
    return False


class _ExactReaders(ReadSchemaResolver):
    def visit_double(self, double_type: DoubleType, partner: IcebergType | None) -> Reader:
        del double_type, partner
        return _ExactDoubleReader()  # type: ignore[no-untyped-call]


class _JavaReaders(_ExactReaders):
    has_met_fixed = False

    def visit_fixed(self, fixed_type: FixedType, partner: IcebergType | None) -> Reader:
        del partner
        self.has_met_fixed = True
        return _LengthAndFixedReader(len(fixed_type))


class _LengthAndFixedReader(FixedReader):
    def read(self, decoder: BinaryDecoder) -> bytes:
        length = decoder.read_int()
        if length != len(self):
            raise ValueError(f"a fixed value of {len(self)} bytes has the length {length} before it")
        return decoder.read(length)


class _ExactDoubleReader(DoubleReader):
    def read(self, decoder: BinaryDecoder) -> float:
        number: float = _DOUBLE.unpack(decoder.read(_DOUBLE.size))[0]
        return number


def _primitive(field: NestedField) -> PrimitiveType:
    if not isinstance(field.field_type, PrimitiveType):
        raise TypeError(f"partition field {field.name} is primitive by the Iceberg spec, found {field.field_type}")
    return field.field_type


@cache
def _slots(struct: StructType) -> dict[int, int]:
    return {field.field_id: slot for slot, field in enumerate(struct.fields)}


def _struct_field(struct: StructType, field_id: int) -> StructType:
    field: NestedField = next(field for field in struct.fields if field.field_id == field_id)
    if not isinstance(field.field_type, StructType):
        raise TypeError(f"field {field_id} of a manifest is a struct by the Iceberg spec, found {field.field_type}")
    return field.field_type


MAX_FIELDS: Final = 10_000
"""The most fields of a schema, each counted as often as its type is used; schemas of manifests have about fifty."""


_PADDING: Final = bytes(4096)
"""Covers numbers that are read at once: after the last byte they are zeros of one byte each."""


class MetadataDecoder(BinaryDecoder):
    """EOFError if a value ends after the last byte, ValueError for a negative length."""

    def __init__(self, content: bytes) -> None:
        decoder = new_decoder(content + _PADDING)
        self._limit = len(content)
        self._read, self._read_ints, self._skip = decoder.read, decoder.read_ints, decoder.skip
        # Bound here, as they are read a hundred times for each entry of a manifest.
        self.tell, self.read_int, self.skip_int = decoder.tell, decoder.read_int, decoder.skip_int  # type: ignore[method-assign]

    def tell(self) -> int:
        """Offset of the next value."""
        raise NotImplementedError

    def read(self, n: int) -> bytes:
        """That many bytes."""
        if not 0 <= n <= self._limit - self.tell():
            raise self._ended(n)
        return self._read(n) if n else b""

    def read_bytes(self) -> bytes:
        """Bytes whose number comes before them."""
        return self.read(self.read_int())

    def read_ints(self, n: int) -> tuple[int, ...]:
        """That many numbers."""
        self._require_elements(n)
        if n >= len(_PADDING):
            return tuple([self.read_int() for _ in range(n)])
        found = self._read_ints(n)
        self.check()
        return found

    def read_int_bytes_dict(self, n: int, dest: dict[int, bytes]) -> None:
        """That many numbers, each with bytes."""
        self._require_elements(n)
        read_int, tell, read, limit = self.read_int, self.tell, self._read, self._limit
        for _ in range(n):
            key, size = read_int(), read_int()
            if not 0 <= size <= limit - tell():
                raise self._ended(size)
            dest[key] = read(size) if size else b""

    def skip(self, n: int) -> None:
        """Passes over that many bytes."""
        if not 0 <= n <= self._limit - self.tell():
            raise self._ended(n)
        if n:
            self._skip(n)

    @property
    def is_at_end(self) -> bool:
        """True if every byte was read."""
        return self.tell() >= self._limit

    def check(self) -> None:
        """Raise EOFError if a value ended after the last byte."""
        if self.tell() > self._limit:
            raise EOFError(f"a value ends after the last of {self._limit} bytes")

    def _require_elements(self, count: int) -> None:
        if count > self._limit - self.tell():
            raise EOFError(f"{count} elements were expected at byte {self.tell()} of {self._limit}")

    def _ended(self, size: int) -> Exception:
        if size < 0:
            return ValueError(f"the value at byte {self.tell()} has a length of {size}")
        return EOFError(f"{size} bytes were expected at byte {self.tell()} of {self._limit}")


def field_count(schema: StructType, known: dict[int, int]) -> int:
    """Number of fields of a type; inner types count as often as they are used.

    Args:
        known: counts from before by `id`: a type that is used twice is one object.
    """
    found = 1 + sum(_values(field.field_type, known) for field in schema.fields)
    if found > MAX_FIELDS:
        raise ValueError(f"its schema has more than {MAX_FIELDS} fields")
    known[id(schema)] = found
    return found


def _values(value_type: IcebergType, known: dict[int, int]) -> int:
    if id(value_type) in known:
        return known[id(value_type)]
    if isinstance(value_type, StructType):
        return field_count(value_type, known)
    if isinstance(value_type, ListType | MapType):
        parts = _parts(value_type)
        found = 1 + sum(_values(part, known) for part, _ in parts)
        if all(is_required and _takes_no_byte(part) for part, is_required in parts):
            raise ValueError(f"its schema has elements that take no byte: {value_type}")
        return found
    return 1


def _parts(value_type: ListType | MapType) -> list[tuple[IcebergType, bool]]:
    """The types in an element, with True if it always has a value of the type."""
    if isinstance(value_type, ListType):
        return [(value_type.element_type, value_type.element_required)]
    return [(value_type.key_type, True), (value_type.value_type, value_type.value_required)]


def _takes_no_byte(value_type: IcebergType) -> bool:
    if isinstance(value_type, StructType):
        return all(field.required and _takes_no_byte(field.field_type) for field in value_type.fields)
    return isinstance(value_type, FixedType) and len(value_type) == 0
