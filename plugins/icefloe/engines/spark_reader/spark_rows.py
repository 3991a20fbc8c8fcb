"""Changes in types that Spark has: uuids are text, as Iceberg's own Spark reader gives them."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def spark_schema(schema: pa.Schema) -> "StructType":
    """The schema of a DataFrame of changes."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(arrow_for_spark(schema), prefer_timestamp_ntz=True)


def arrow_for_spark(schema: pa.Schema) -> pa.Schema:
    """The columns as Spark takes them.

    Raises:
        UsageError: names a column of a type that Spark lacks.
    """
    return pa.schema([field.with_type(_known(field.type, field.name, field.type)) for field in schema])


def rows_for_spark(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Changes in the types of `arrow_for_spark`."""
    for batch in batches:
        schema = arrow_for_spark(batch.schema)
        columns = [_with_texts(column).cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _known(kind: pa.DataType, column: str, of_column: pa.DataType) -> pa.DataType:
    def inner(field: pa.Field) -> pa.Field:
        return field.with_type(_known(field.type, column, of_column))

    if kind == pa.uuid() or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(inner(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([inner(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(inner(kind.key_field), inner(kind.item_field))
    if pa.types.is_time(kind) or (pa.types.is_timestamp(kind) and kind.unit != "us"):
        raise UsageError(
            f"column {column!r} has type {of_column}, which a DataFrame cannot hold: name the other ones in columns"
        )
    return kind


def _with_texts(column: Any) -> pa.Array:
    """The column with uuids in their canonical form, also those inside of other values."""
    kind = column.type
    if kind == pa.uuid():
        return _texts(column)
    if pa.types.is_struct(kind):
        fields = [_with_texts(column.field(place)) for place in range(kind.num_fields)]
        made = [field.with_type(each.type) for field, each in zip(kind, fields, strict=True)]
        return pa.StructArray.from_arrays(fields, fields=made, mask=column.is_null()) if made else column
    if pa.types.is_nested(kind):
        inner = (column.keys, column.items) if pa.types.is_map(kind) else (column.values,)
        # Arrow takes a mask with offsets that begin in their buffer only.
        offsets = pa.array(column.offsets.to_numpy(), column.offsets.type)
        return type(column).from_arrays(offsets, *map(_with_texts, inner), mask=column.is_null())
    return column


def _texts(uuids: Any) -> pa.Array:
    if not len(uuids):
        return pa.array([], pa.string())
    data = np.frombuffer(uuids.storage.buffers()[1], "V16")[uuids.offset : uuids.offset + len(uuids)]
    buffers = [None, pa.py_buffer(data.tobytes().hex().encode())]
    digits = (
        pa.FixedSizeBinaryArray.from_buffers(pa.binary(32), len(uuids), buffers).cast(pa.binary()).cast(pa.string())
    )
    texts = pc.replace_substring_regex(digits, r"(.{8})(.{4})(.{4})(.{4})", r"\1-\2-\3-\4-")
    return pc.if_else(uuids.is_valid(), texts, None)
