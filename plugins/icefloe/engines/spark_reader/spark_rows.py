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
        columns = [_texts(column) if column.type == pa.uuid() else column for column in batch.columns]
        yield pa.RecordBatch.from_arrays(
            [column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
        )


def _known(kind: pa.DataType, column: str, of_column: pa.DataType) -> pa.DataType:
    def inner(field: pa.Field) -> pa.Field:
        return field.with_type(_known(field.type, column, of_column))

    if (kind == pa.uuid() and kind == of_column) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(inner(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([inner(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(inner(kind.key_field), inner(kind.item_field))
    if pa.types.is_time(kind) or kind == pa.uuid() or (pa.types.is_timestamp(kind) and kind.unit != "us"):
        raise UsageError(
            f"column {column!r} has type {of_column}, which a DataFrame cannot hold: name the other ones in columns"
        )
    return kind


def _texts(uuids: Any) -> pa.Array:
    """Uuids in their canonical form."""
    data = np.frombuffer(uuids.storage.buffers()[1], "V16")[uuids.offset : uuids.offset + len(uuids)]
    buffers = [None, pa.py_buffer(data.tobytes().hex().encode())]
    digits = (
        pa.FixedSizeBinaryArray.from_buffers(pa.binary(32), len(uuids), buffers).cast(pa.binary()).cast(pa.string())
    )
    texts = pc.replace_substring_regex(digits, r"(.{8})(.{4})(.{4})(.{4})", r"\1-\2-\3-\4-")
    return pc.if_else(uuids.is_valid(), texts, None)
