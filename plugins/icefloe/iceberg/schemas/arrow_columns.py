"""Columns in Arrow: the type of each Iceberg type, and the columns of a data file by field id.

Types are as in PyIceberg's ``Schema.as_arrow``, without the docs of columns. Field ids are a file's own or the name
mapping's.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import pyarrow as pa
from pyiceberg.io.pyarrow import _ConvertToArrowSchema
from pyiceberg.schema import Schema, index_by_id, visit
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import GeographyType, GeometryType, IcebergType, NestedField

from icefloe.errors import NotBuiltError
from icefloe.iceberg.unreadable import UndecodableError

__all__ = ["FileColumn", "arrow_type", "file_columns", "leaves"]

_UNREAD: Final = (GeographyType, GeometryType)


class _ToArrow(_ConvertToArrowSchema):
    """By the docs of columns, which PyIceberg keeps in field metadata, equal rows of two schemas would differ."""

    def field(self, field: NestedField, field_result: pa.DataType) -> pa.Field:
        return pa.field(field.name, field_result, nullable=field.optional)


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a table's rows, the same for every file and writer.

    Strings, binaries and lists have 64-bit offsets, nothing is dictionary-encoded.

    >>> from pyiceberg.types import LongType, StringType
    >>> arrow_schema(Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType())))
    id: int64 not null
    name: large_string
    """
    for field_id, field in index_by_id(schema).items():
        if isinstance(field.field_type, _UNREAD):
            raise NotBuiltError(
                f"column {schema.find_column_name(field_id)!r} has type {field.field_type}, which this release cannot "
                "read: drop the column, or use a release that knows the type"
            )
    return pa.schema(list(arrow_type(schema.as_struct())))


def arrow_type(kind: IcebergType) -> pa.DataType:
    """The Arrow type of one Iceberg type.

    >>> from pyiceberg.types import DecimalType, FixedType
    >>> arrow_type(DecimalType(9, 2)), arrow_type(FixedType(3))
    (Decimal128Type(decimal128(9, 2)), FixedSizeBinaryType(fixed_size_binary[3]))
    """
    found: pa.DataType = visit(kind, _ToArrow())
    return found


def initial_value(field: NestedField) -> pa.Scalar:
    """A column's value in files that lack it: its initial default or null.

    >>> from pyiceberg.types import TimestampType
    >>> initial_value(NestedField(1, "at", TimestampType(), initial_default=date(1970, 1, 2))).value
    86400000000
    """
    kind, default = arrow_type(field.field_type), field.initial_default
    if default is None:
        # Arrow makes no null of a type that holds uuids inside.
        return pa.nulls(1, kind)[0]
    # A date that was promoted is the default of a timestamp, which Arrow makes of no date.
    return pa.scalar(default).cast(kind) if type(default) is date else pa.scalar(default, kind)


_FIELD_IDS: Final = (b"PARQUET:field_id", b"iceberg.id")
"""Keys under which pyarrow puts the ids of Parquet's and ORC's types."""
_LISTS: Final = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumn:
    """One column of a file, or one field inside a column.

    Attributes:
        field_id: None if neither file nor name mapping gives one: nothing reads the column.
        children: fields of a struct; element of a list; key and value of a map.
    """

    field_id: int | None
    position: int
    name: str
    type: pa.DataType
    is_nullable: bool
    children: tuple["FileColumn", ...]


def file_columns(schema: pa.Schema, name_mapping: NameMapping | None) -> tuple[FileColumn, ...]:
    """The columns of a file, with the field id of each.

    An id in the file wins, then the id of the name in the mapping (Iceberg spec, "Column Projection").

    >>> schema = pa.schema([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "7"}), ("b", pa.int64())])
    >>> [column.field_id for column in file_columns(schema, None)]
    [7, None]
    """
    return _columns(list(schema), () if name_mapping is None else tuple(name_mapping))


def _columns(fields: Sequence[pa.Field], mapped: Sequence[MappedField]) -> tuple[FileColumn, ...]:
    by_name = {name: entry for entry in mapped for name in entry.names}
    taken = {_own_id(field) for field in fields}
    columns = []
    for position, field in enumerate(fields):
        entry = by_name.get(field.name)
        field_id = _own_id(field)
        # An id that a column of the file has is not given to another one by its name.
        if field_id is None and entry is not None and entry.field_id not in taken:
            field_id = entry.field_id
        columns.append(
            FileColumn(
                field_id=field_id,
                position=position,
                name=field.name,
                type=field.type,
                is_nullable=field.nullable,
                children=_columns(_inner_fields(field.type), () if entry is None else entry.fields),
            )
        )
    return tuple(columns)


def leaves(columns: Iterable[FileColumn]) -> Iterator[FileColumn]:
    """Fields without inner fields, in the order of a Parquet file."""
    for column in columns:
        yield from leaves(column.children) if column.children else (column,)


def _own_id(field: pa.Field) -> int | None:
    metadata = field.metadata or {}
    found = next((metadata[key] for key in _FIELD_IDS if key in metadata), None)
    if found is None:
        return None
    try:
        return int(found)
    except ValueError:
        said = found.decode(errors="replace")
        raise UndecodableError(f"column {field.name!r} has {said!r} as its field id, which is no number") from None


def _inner_fields(kind: pa.DataType) -> list[pa.Field]:
    """Under their names in name mappings."""
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
    if is_list(kind):
        return [kind.value_field.with_name("element")]
    return []


def is_list(kind: pa.DataType) -> bool:
    """True for Arrow's list layouts.

    >>> is_list(pa.large_list(pa.int32())), is_list(pa.map_(pa.string(), pa.int32()))
    (True, False)
    """
    return isinstance(kind, _LISTS)
