"""The Arrow type of each Iceberg type, as in PyIceberg's ``Schema.as_arrow``, without the docs of columns."""

from datetime import date
from typing import Final

import pyarrow as pa
from pyiceberg.io.pyarrow import _ConvertToArrowSchema
from pyiceberg.schema import Schema, index_by_id, visit
from pyiceberg.types import GeographyType, GeometryType, IcebergType, NestedField

from icefloe.errors import NotBuiltError

__all__ = ["arrow_type"]

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
