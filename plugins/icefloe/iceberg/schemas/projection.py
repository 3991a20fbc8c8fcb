"""Rows of one schema of a table in the columns of another one, by field id."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, methodcaller
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from icefloe.iceberg.data_file import Constant, constant_from_json
from icefloe.iceberg.schemas.arrow_columns import FileColumn, arrow_schema, arrow_type, initial_value, is_list
from icefloe.iceberg.schemas.conversions import (
    Conversion,
    Field,
    FilledField,
    KeepDictionary,
    ListStep,
    MapStep,
    Parent,
    StructStep,
    TakenField,
    keep,
    null_array,
)
from icefloe.iceberg.unreadable import ColumnError

__all__ = ["Projection", "plan_projection"]


_TEXT: Final = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)


def plan_promotion(source: pa.DataType, target: pa.DataType) -> Conversion | None:
    """The step from a file's values to the table's; None if no promotion allows it.

    It raises ``pa.ArrowInvalid`` for values that do not fit, and does not round. Only nanoseconds in a file of a
    microsecond column are truncated, as in PyIceberg.

    >>> plan_promotion(pa.int32(), pa.int64())
    operator.methodcaller('cast', DataType(int64), safe=True)
    >>> plan_promotion(pa.int64(), pa.int32()) is None
    True
    """
    if source == target:
        return keep
    if pa.types.is_null(source):
        return lambda array: null_array(target, len(array))
    if pa.types.is_dictionary(source):
        return _after(pa.DictionaryArray.dictionary_decode, plan_promotion(source.value_type, target))
    if isinstance(source, pa.BaseExtensionType):
        return _after(attrgetter("storage"), plan_promotion(source.storage_type, target))
    if isinstance(target, pa.BaseExtensionType):
        return _after(plan_promotion(source, target.storage_type), _view(target))
    if _are(pa.types.is_timestamp, source, target):
        return _timestamp(source, target)
    return _cast(target, safe=not _has_nanoseconds(source)) if _is_promoted(source, target) else None


def plan_kept_dictionary(source: pa.DataType, target: pa.DataType) -> Conversion | None:
    """The step that leaves encoded text encoded; None for other columns.

    >>> plan_kept_dictionary(pa.dictionary(pa.int32(), pa.string()), pa.large_string()).index_type
    DataType(int32)
    """
    if not pa.types.is_dictionary(source) or not _is_text(target):
        return None
    values = plan_promotion(source.value_type, target)
    return None if values is None else KeepDictionary(values, source.index_type)


def _are(is_kind: Callable[[pa.DataType], bool], *kinds: pa.DataType) -> bool:
    return all(map(is_kind, kinds))


def _is_text(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in _TEXT)


def _has_nanoseconds(kind: pa.DataType) -> bool:
    return (pa.types.is_time(kind) or pa.types.is_timestamp(kind)) and kind.unit == "ns"


def _is_promoted(source: pa.DataType, target: pa.DataType) -> bool:
    types = pa.types
    if _are(types.is_integer, source, target) or _are(types.is_floating, source, target):
        return bool(source.bit_width <= target.bit_width)
    if _are(types.is_decimal, source, target):
        return bool(source.scale == target.scale and source.precision <= target.precision)
    if types.is_date(source):
        return types.is_date(target) or (types.is_timestamp(target) and target.tz is None)
    if _are(types.is_time, source, target) or _are(_is_text, source, target):
        return True
    # ORC has no binaries of fixed length, and no time of day: Iceberg keeps its microseconds there as they are.
    return (types.is_binary(source) and types.is_fixed_size_binary(target)) or (
        types.is_int64(source) and types.is_time(target)
    )


def _timestamp(source: pa.DataType, target: pa.DataType) -> Conversion | None:
    """Parquet stores instants in UTC, local times as they are: only the unit matters."""
    if source.unit == target.unit:
        return _view(target)
    plain = _cast(pa.timestamp(target.unit), safe=source.unit != "ns")
    return _after(_view(pa.timestamp(source.unit)), _after(plain, _view(target)))


def _cast(target: pa.DataType, *, safe: bool = True) -> Conversion:
    """Converted values; ``safe`` raises ``pa.ArrowInvalid`` if a value would change."""
    return methodcaller("cast", target, safe=safe)


def _view(target: pa.DataType) -> Conversion:
    """The same bytes under another type: zones of timestamps, wider decimals, uuids."""
    return methodcaller("view", target)


def _after(first: Conversion | None, second: Conversion | None) -> Conversion | None:
    if first is None or second is None:
        return None
    return first if second is keep else second if first is keep else lambda array: second(first(array))


def plan_narrowing(source: pa.DataType, target: pa.DataType, *, column: str) -> Conversion | None:
    """The step that undoes a widening by promotion; None if the type is not wider.

    >>> plan_narrowing(pa.int64(), pa.int32(), column="id")(pa.array([7])).type
    DataType(int32)
    >>> plan_narrowing(pa.int32(), pa.int64(), column="id") is None
    True
    """
    if pa.types.is_null(target):
        return lambda array: null_array(target, len(array))
    is_wider = (source, target) in ((pa.int64(), pa.int32()), (pa.float64(), pa.float32()))
    if pa.types.is_timestamp(source) and pa.types.is_date(target):
        is_wider = True
    if pa.types.is_decimal(source) and pa.types.is_decimal(target):
        is_wider = source.scale == target.scale and source.precision > target.precision
    return partial(_narrowed, target=target, column=column) if is_wider else None


def _narrowed(array: pa.Array, *, target: pa.DataType, column: str) -> pa.Array:
    try:
        narrowed = array.cast(target)
        fits = _same_values(array, narrowed.cast(array.type))
    except pa.ArrowInvalid:
        fits = False
    if not fits:
        raise ColumnError(
            f"column {column!r} holds a value of type {array.type} that does not fit {target}: the table was rolled "
            f"back to a schema from before the column became {array.type}; end the range at a snapshot with the wider "
            "type"
        )
    return narrowed


def _same_values(one: pa.Array, other: pa.Array) -> bool:
    """NaN equals itself. Arrow rounds floats, makes large ones infinite and truncates times."""
    differs = pc.not_equal(one, other)
    if pa.types.is_floating(one.type):
        differs = pc.and_(differs, pc.invert(pc.is_nan(one)))
    return not pc.any(differs).as_py()


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Turns batches of one file into batches of the table."""

    schema: pa.Schema
    fields: Sequence[Field]

    @property
    def positions(self) -> frozenset[int]:
        """The file's columns that must be read."""
        return frozenset(field.position for field in self.fields if isinstance(field, TakenField))

    def apply(self, batch: pa.RecordBatch, positions: Mapping[int, int]) -> pa.RecordBatch:
        """A batch of the table's columns; unchanged columns are not copied."""
        parent = Parent(field=lambda position: batch.column(positions[position]), num_rows=batch.num_rows)
        return pa.RecordBatch.from_arrays([field.read(parent) for field in self.fields], schema=self.schema)


def plan_projection(
    columns: Sequence[FileColumn], schema: Schema, constants: Mapping[str, Constant], *, keep_dictionaries: bool = False
) -> Projection:
    """Plan the projection of a file.

    A column that the file lacks is its identity partition's constant, its initial default or null (Iceberg spec,
    "Column Projection").

    Args:
        keep_dictionaries: encoded text columns stay encoded; the result's schema says so.
    """
    if columns and schema.fields and all(column.field_id is None for column in columns):
        raise ColumnError(
            "its columns have no field ids, and no `schema.name-mapping.default` of the table gives them any: set that "
            "property"
        )
    planner = _Planner(constants, keep_dictionaries=keep_dictionaries)
    target = arrow_schema(schema)
    fields = planner.fields(columns, schema.fields, ())
    delivered = [_delivered(field, column) for field, column in zip(fields, target, strict=True)]
    return Projection(schema=pa.schema(delivered), fields=fields)


def _delivered(field: Field, column: pa.Field) -> pa.Field:
    """Dictionary-encoded if the file's dictionary is kept."""
    if isinstance(field, TakenField) and isinstance(field.step, KeepDictionary):
        return column.with_type(pa.dictionary(field.step.index_type, column.type))
    return column


_Path = tuple[str, ...]
"""Names from the top of the schema."""


class _Planner:
    def __init__(self, constants: Mapping[str, Constant], *, keep_dictionaries: bool) -> None:
        self._constants = constants
        self._keep_dictionaries = keep_dictionaries

    def fields(self, columns: Sequence[FileColumn], wanted: Sequence[NestedField], path: _Path) -> tuple[Field, ...]:
        by_id = {column.field_id: column for column in columns}
        return tuple(self._field(by_id.get(field.field_id), field, (*path, field.name)) for field in wanted)

    def _field(self, column: FileColumn | None, field: NestedField, path: _Path) -> Field:
        if column is None:
            return FilledField(value=self._fill(field, path))
        return TakenField(
            position=column.position,
            step=self._step(column, field.field_type, path),
            required_name=_name(path) if field.required else None,
        )

    def _fill(self, field: NestedField, path: _Path) -> pa.Scalar:
        if str(field.field_id) in self._constants and field.field_type.is_primitive:
            value: object = constant_from_json(field.field_type, self._constants[str(field.field_id)])  # type: ignore[arg-type]
            return pa.scalar(value, arrow_type(field.field_type))
        if field.initial_default is None and field.required:
            raise ColumnError(
                f"required column {_name(path)!r} is missing and has no initial default: make the column optional, "
                "or rewrite the file with it"
            )
        return initial_value(field)

    def _step(self, column: FileColumn, kind: IcebergType, path: _Path) -> Conversion:
        children = column.children
        match kind:
            case StructType() if pa.types.is_struct(column.type):
                return StructStep(target=arrow_type(kind), fields=self.fields(children, kind.fields, path))
            case ListType() if is_list(column.type):
                element = self._field(children[0], kind.element_field, (*path, "element"))
                return ListStep(target=arrow_type(kind), element=element)
            case MapType() if pa.types.is_map(column.type):
                key = self._step(children[0], kind.key_type, (*path, "key"))
                value = self._field(children[1], kind.value_field, (*path, "value"))
                return MapStep(target=arrow_type(kind), key=key, value=value)
        step = self._primitive(column, arrow_type(kind), path) if kind.is_primitive else None
        if step is None:
            raise ColumnError(
                f"column {_name(path)!r} has type {column.type} there, which cannot become the table's {kind}: "
                "rewrite the file"
            )
        return step

    def _primitive(self, column: FileColumn, target: pa.DataType, path: _Path) -> Conversion | None:
        is_kept = self._keep_dictionaries and len(path) == 1
        kept = plan_kept_dictionary(column.type, target) if is_kept else None
        return kept or plan_promotion(column.type, target) or plan_narrowing(column.type, target, column=_name(path))


def _name(path: _Path) -> str:
    return ".".join(path)
