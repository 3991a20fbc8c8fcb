"""The Arrow type of each Iceberg type, as in PyIceberg's ``Schema.as_arrow``."""

from collections.abc import Mapping
from datetime import date
from typing import Final

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from icefloe.errors import NotBuiltError

__all__ = ["arrow_type"]


# PyIceberg's own conversion also keeps the docs of columns, in field metadata. By these, equal rows of two schemas
# would differ in type. A test proves that both agree in everything else.
_BY_TYPE: Final[Mapping[type[IcebergType], pa.DataType]] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", tz="UTC"),
    TimestampNanoType: pa.timestamp("ns"),
    TimestamptzNanoType: pa.timestamp("ns", tz="UTC"),
    StringType: pa.large_string(),
    UUIDType: pa.uuid(),
    BinaryType: pa.large_binary(),
    UnknownType: pa.null(),
}


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a table's rows, the same for every file and writer.

    Strings, binaries and lists have 64-bit offsets, nothing is dictionary-encoded.

    >>> arrow_schema(Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType())))
    id: int64 not null
    name: large_string
    """
    return pa.schema([_arrow_field(field, ()) for field in schema.fields])


def arrow_type(kind: IcebergType) -> pa.DataType:
    """The Arrow type of one Iceberg type.

    >>> arrow_type(DecimalType(9, 2)), arrow_type(FixedType(3))
    (Decimal128Type(decimal128(9, 2)), FixedSizeBinaryType(fixed_size_binary[3]))
    """
    return _arrow_type(kind, ())


def initial_value(field: NestedField) -> pa.Scalar:
    """A column's value in files that lack it: its initial default or null.

    >>> initial_value(NestedField(1, "at", TimestampType(), initial_default=date(1970, 1, 2))).value
    86400000000
    """
    kind, default = arrow_type(field.field_type), field.initial_default
    if default is None:
        # Arrow makes no null of a type that holds uuids inside.
        return pa.nulls(1, kind)[0]
    # A date that was promoted is the default of a timestamp, which Arrow makes of no date.
    return pa.scalar(default).cast(kind) if type(default) is date else pa.scalar(default, kind)


def _arrow_field(field: NestedField, parents: tuple[str, ...]) -> pa.Field:
    return pa.field(field.name, _arrow_type(field.field_type, (*parents, field.name)), nullable=field.optional)


def _arrow_type(kind: IcebergType, path: tuple[str, ...]) -> pa.DataType:
    match kind:
        case StructType():
            return pa.struct([_arrow_field(field, path) for field in kind.fields])
        case ListType():
            return pa.large_list(_arrow_field(kind.element_field, path))
        case MapType():
            return pa.map_(_arrow_field(kind.key_field, path), _arrow_field(kind.value_field, path))
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case FixedType():
            return pa.binary(len(kind))
    if (plain := _BY_TYPE.get(type(kind))) is not None:
        return plain
    column = ".".join(path)
    raise NotBuiltError(
        f"column {column!r} has type {kind}, which this release cannot read: drop the column, or use a release that "
        "knows the type"
    )
