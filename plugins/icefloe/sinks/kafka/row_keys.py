"""The key of an event: the identifier columns of its row."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.dotted_names import column_type, named_columns


def key_schema(batch: ProvenBatch) -> pa.Schema:
    """Names and types of a key's columns; empty if rows have no identity.

    Integers are 64 bits wide and floats are doubles: a column that the table widens must not change the bytes of a key,
    because they decide on its partition.
    """
    return widened(pa.schema([pa.field(name, column_type(batch.schema, name)) for name in batch.identity]))


def widened(schema: pa.Schema) -> pa.Schema:
    """The schema of keys for the schema of identifier columns."""
    return pa.schema([pa.field(field.name, _widened(field.type)) for field in schema])


def fixed_types(batch: ProvenBatch, *, has_schemas: bool) -> Mapping[str, str]:
    """Types of the columns of a key whose promotion would change the bytes of keys, by column.

    A date becomes a timestamp, which is written as another number. A decimal is written as before, but its schema has
    another precision.
    """
    return {
        field.name: str(field.type)
        for field in key_schema(batch)
        if pa.types.is_date(field.type) or (has_schemas and pa.types.is_decimal(field.type))
    }


def key_rows(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The keys of rows.

    >>> rows = pa.RecordBatch.from_pydict({"at": [{"x": 1}], "f": [-0.0]})
    >>> schema = pa.schema({"at.x": pa.int64(), "f": pa.float64()})
    >>> key_rows(rows, schema).to_pylist()
    [{'at.x': 1, 'f': 0.0}]
    """
    columns = []
    for field, column in zip(schema, named_columns(rows, schema.names), strict=True):
        column = column.cast(field.type) if column.type != field.type else column
        if pa.types.is_floating(field.type):
            # 0.0 and -0.0 are one identity. A sum with 0.0 is never -0.0.
            column = pc.add(column, 0.0)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _widened(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(kind):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(kind) else kind
