"""Conversions of a file's arrays into the table's, planned once per file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.iceberg.unreadable import ColumnError

__all__ = ["FilledField"]


Conversion = Callable[[pa.Array], pa.Array]
"""Turns a file's array into one of the same length that the next step, or the table, expects."""


def keep(array: pa.Array) -> pa.Array:
    """The array as it is."""
    return array


@dataclass(frozen=True, slots=True)
class KeepDictionary:
    """A dictionary-encoded array whose distinct values get the table's type."""

    values: Conversion
    index_type: pa.DataType

    def __call__(self, array: pa.Array) -> pa.Array:
        if self.values is keep:
            return array
        return pa.DictionaryArray.from_arrays(array.indices, self.values(array.dictionary))


def null_array(kind: pa.DataType, num_rows: int) -> pa.Array:
    """An array of nulls; required fields inside hold values that no reader sees.

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
    """Nulls become whatever the buffers hold: zeros, empty text, empty lists.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The parent of fields: one struct, list or batch.

    Attributes:
        field: by its position; a struct is null wherever the parent is.
        validity: rows in which the parent exists; None: all.
    """

    field: Callable[[int], pa.Array]
    num_rows: int
    validity: pa.BooleanArray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenField:
    """A field that the file has."""

    position: int
    step: Conversion
    required_name: str | None  # dotted, if the table requires a value

    def read(self, parent: Parent) -> pa.Array:
        array = parent.field(self.position)
        if self.required_name is None or not array.null_count:
            return self.step(array)
        nulls = array.is_null()
        if pc.any(nulls if parent.validity is None else pc.and_(nulls, parent.validity)).as_py():
            raise ColumnError(
                f"required column {self.required_name!r} holds a null, but the table's schema requires a value; make "
                "the column optional"
            )
        # The nulls that are left are inside of a struct that is null, so nobody sees what takes their place.
        return without_nulls(self.step(array))


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledField:
    """A field that the file lacks: a default, a partition's constant, or null."""

    value: pa.Scalar

    def read(self, parent: Parent) -> pa.Array:
        rows = parent.num_rows
        return pa.repeat(self.value, rows) if self.value.is_valid else null_array(self.value.type, rows)


Field = TakenField | FilledField


@dataclass(frozen=True, slots=True, kw_only=True)
class StructStep:
    """A struct with the table's fields; null rows stay null."""

    target: pa.DataType
    fields: Sequence[Field]

    def __call__(self, array: pa.Array) -> pa.Array:
        validity = array.is_valid() if array.null_count else None

        def child(position: int) -> pa.Array:
            # optional a { required b { optional c } }:  where a is null, b is not null in the file, because it is
            # required, and c has no value. Flattened, b is null there too, so c is not taken for a missing value.
            found = array.field(position)
            return array.flatten()[position] if validity is not None and pa.types.is_struct(found.type) else found

        inner = Parent(field=child, num_rows=len(array), validity=validity)
        children = [field.read(inner) for field in self.fields]
        mask = array.is_null() if array.null_count or not children else None
        return pa.StructArray.from_arrays(children, fields=list(self.target), mask=mask)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListStep:
    """Null lists stay null, empty ones empty."""

    target: pa.DataType
    element: Field

    def __call__(self, array: pa.Array) -> pa.Array:
        if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
            offsets, start, stop = _rebased(array, pa.int64())
            values = array.values.slice(start, stop - start)
        else:
            # By lengths: pyarrow 26 casts large list views to damaged arrays.
            lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
            offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
            values = array.flatten()
        elements = self.element.read(Parent(field=lambda _: values, num_rows=len(values)))
        return pa.LargeListArray.from_arrays(offsets, elements, type=self.target, mask=_mask(array))


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStep:
    """Null maps stay null, empty ones empty."""

    target: pa.DataType
    key: Conversion
    value: Field

    def __call__(self, array: pa.Array) -> pa.Array:
        offsets, start, stop = _rebased(array, pa.int32())
        keys, items = (entries.slice(start, stop - start) for entries in (array.keys, array.items))
        values = self.value.read(Parent(field=lambda _: items, num_rows=len(items)))
        return pa.MapArray.from_arrays(offsets, self.key(keys), values, type=self.target, mask=_mask(array))


def _rebased(array: pa.Array, offset_type: pa.DataType) -> tuple[pa.Array, int, int]:
    """An array may be a slice of a larger one."""
    # Of [a b] [c] [d e f], a slice with the last two lists:  offsets 2 3 6, children 2 to 6, offsets from zero 0 1 4.
    offsets = array.offsets.cast(offset_type)
    start, stop = offsets[0].as_py(), offsets[-1].as_py()
    if start or offsets.offset:
        offsets = pc.subtract(offsets, start)
    return offsets, start, stop


def _mask(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None
