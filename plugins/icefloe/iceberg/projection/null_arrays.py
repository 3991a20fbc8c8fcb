"""Arrays without values: all null, or with their nulls hidden below a parent that is null itself.

Parquet and Arrow writers refuse a null in a required field even if its parent is null. So such a field must hold some
value there, which no reader sees.
"""

import pyarrow as pa


def null_array(kind: pa.DataType, num_rows: int) -> pa.Array:
    """An array of nulls; required fields inside it hold values that no reader sees.

    >>> array = null_array(pa.struct([pa.field("id", pa.int32(), nullable=False)]), 2)
    >>> array.to_pylist(), array.field(0).null_count
    ([None, None], 0)
    """
    if not pa.types.is_struct(kind):
        return pa.nulls(num_rows, kind)
    fields = [null_array(field.type, num_rows) for field in kind]
    children = [array if field.nullable else without_nulls(array) for field, array in zip(kind, fields, strict=True)]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.repeat(pa.scalar(value=True), num_rows))


def without_nulls(array: pa.Array) -> pa.Array:
    """The array with its nulls replaced by whatever its buffers hold: zeros, empty text, empty lists.

    >>> without_nulls(pa.array([[1], None])).to_pylist()
    [[1], []]
    """
    kind = array.type
    if not array.null_count or pa.types.is_null(kind):
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, without_nulls(array.storage))
    if pa.types.is_struct(kind):
        children = [array.field(position) for position in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind)) if children else array
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, type=kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return type(array).from_arrays(array.offsets, array.values, type=kind)
    _, *values = array.buffers()
    return pa.Array.from_buffers(kind, len(array), [None, *values], null_count=0, offset=array.offset)
