"""Conversions of a file's arrays into the table's: small steps, planned once and applied to every batch."""

from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa


class Conversion(Protocol):
    """Turns an array into another of the same length; knows nothing of files."""

    def apply(self, array: pa.Array) -> pa.Array:
        """The array that the next step, or the table, expects."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The array is right as it is."""

    def apply(self, array: pa.Array) -> pa.Array:
        """The same array, not copied."""
        return array


KEEP: Final = Keep()


@dataclass(frozen=True, slots=True)
class View:
    """The same bytes under another type: zones of timestamps, wider decimals, uuids."""

    target: pa.DataType

    def apply(self, array: pa.Array) -> pa.Array:
        """The array's buffers as another type, not copied."""
        return array.view(self.target)


@dataclass(frozen=True, slots=True)
class Cast:
    """Converted values; ``safe`` raises ``pa.ArrowInvalid`` if a value would change."""

    target: pa.DataType
    safe: bool = True

    def apply(self, array: pa.Array) -> pa.Array:
        """A new array of the target type."""
        return array.cast(self.target, safe=self.safe)


@dataclass(frozen=True, slots=True)
class Unwrap:
    """The storage of an extension type."""

    def apply(self, array: pa.Array) -> pa.Array:
        """The storage, not copied."""
        return array.storage


@dataclass(frozen=True, slots=True)
class Decode:
    """Plain values of a dictionary-encoded array."""

    def apply(self, array: pa.Array) -> pa.Array:
        """A new array without a dictionary."""
        return array.dictionary_decode()


@dataclass(frozen=True, slots=True)
class KeepDictionary:
    """A dictionary-encoded array that stays one; its distinct values get the table's type."""

    values: Conversion
    index_type: pa.DataType

    def apply(self, array: pa.Array) -> pa.Array:
        """The same indices over converted values."""
        if isinstance(self.values, Keep):
            return array
        return pa.DictionaryArray.from_arrays(array.indices, self.values.apply(array.dictionary))


@dataclass(frozen=True, slots=True)
class Nulls:
    """All null: the column had no type yet when the file was written."""

    target: pa.DataType

    def apply(self, array: pa.Array) -> pa.Array:
        """As many nulls as the array has rows."""
        return null_array(self.target, len(array))


@dataclass(frozen=True, slots=True)
class Chain:
    """Two steps, one after the other."""

    first: Conversion
    second: Conversion

    def apply(self, array: pa.Array) -> pa.Array:
        """The result of the second step, applied to the result of the first."""
        return self.second.apply(self.first.apply(array))


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
