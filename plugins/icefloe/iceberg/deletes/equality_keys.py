"""The keys of equality deletes, equal if Iceberg's readers call them equal."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes

__all__ = ["key_hashes"]


def key_hashes(keys: pa.RecordBatch) -> RowHashes:
    """The hash of each key: equal if Iceberg's Java reader calls the keys equal.

    Null equals null and NaN equals NaN. In contrast to rows that are compared as changes, 0.0 is not -0.0: Java
    compares floating-point keys by their bits. A null struct is not a struct of nulls.

    >>> hashes = key_hashes(pa.record_batch({"key": [0.0, -0.0, 0.0, None, None]}))
    >>> hashes[0] == hashes[2], hashes[0] == hashes[1], hashes[3] == hashes[4]
    (True, False, True)
    """
    return row_hashes([_by_bits(column) if _has_floats(column.type) else column for column in keys.columns])


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_floats(field.type) for field in kind)
    return bool(pa.types.is_floating(kind))


def _by_bits(array: Any) -> Any:
    """Floating-point values as integers with the same bits, all NaNs as one."""
    if pa.types.is_struct(array.type):
        children = [_by_bits(array.field(index)) for index in range(array.type.num_fields)]
        names = [field.name for field in array.type]
        return pa.StructArray.from_arrays(children, names=names, mask=array.is_null())
    if not pa.types.is_floating(array.type):
        return array
    nan = pa.scalar(float("nan"), array.type)
    bits = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return pc.if_else(pc.is_nan(array), nan, array).view(bits)
