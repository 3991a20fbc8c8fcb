"""The schema in which a batch delivers rows, with names for files without ids."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Self

import pyarrow as pa
from pyiceberg.schema import Schema, index_by_id, index_name_by_id
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import NameMapping, create_mapping_from_schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    TimestampNanoType,
    TimestampType,
    UnknownType,
)

from icefloe.errors import NotBuiltError, TerminalError
from icefloe.iceberg.data_file import constant_to_json
from icefloe.iceberg.schemas.arrow_columns import arrow_schema, file_columns, initial_value
from icefloe.iceberg.schemas.column_paths import selected_schema, struct_paths
from icefloe.iceberg.schemas.projection import plan_projection
from icefloe.iceberg.step import ancestry

__all__ = ["TableSchema", "covering_schema", "require_comparable_states", "schemas_before", "widest_types"]


_FLOATS: Final = ("float", "double")
_DEFAULTS: Final = ("initial-default", "write-default")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableSchema:
    """A table's columns as they are delivered, by field id.

    Attributes:
        name_mapping: gives field ids to columns of files without; None if the table has none.
    """

    columns: Schema
    name_mapping: NameMapping | None
    arrow: pa.Schema

    ROW_ID: ClassVar = "_icefloe_row_id"
    """The name under which row ids are read; no column that icefloe delivers has it."""

    @classmethod
    def at(cls, metadata: TableMetadata, snapshot_id: int | None, *, after_snapshot_id: int | None = None) -> Self:
        """The schema of a snapshot; the current one if it names none (V1) or is None.

        Columns are as wide as in the schemas of the snapshots that led to this one, and to the start of the range.
        """
        own = _schema_at(metadata, snapshot_id)
        before = schemas_before(metadata, (snapshot_id, after_snapshot_id))
        try:
            return cls.covering(own, before, metadata.name_mapping())
        except NotBuiltError as error:
            raise error.restated(f"the table at {metadata.location} cannot be read: {error.sentence}") from error

    @classmethod
    def of(cls, columns: Schema, name_mapping: NameMapping | None = None) -> Self:
        """A schema with exactly these columns."""
        return cls(columns=columns, name_mapping=name_mapping, arrow=arrow_schema(columns))

    @classmethod
    def covering(cls, columns: Schema, others: Sequence[Schema], name_mapping: NameMapping | None) -> Self:
        """A schema with these columns, as wide as in the others."""
        return cls.of(covering_schema(columns, others), name_mapping)

    @classmethod
    def from_json(cls, schema: Mapping[str, object], *, name_mapping: Sequence[Mapping[str, object]] | None) -> Self:
        """The schema with this ``schema_json`` and ``name_mapping_json``."""
        mapping = None if name_mapping is None else NameMapping.model_validate(name_mapping)
        return cls.of(Schema.model_validate(_with_float_defaults(schema, float)), mapping)

    @property
    def schema_json(self) -> dict[str, object]:
        """Iceberg's JSON of the schema; a default that is no JSON number, such as NaN, is a text."""
        # PyIceberg's own JSON has null in place of NaN and infinity.
        written = self.columns.model_dump(mode="python", by_alias=True)
        return _with_float_defaults(written, partial(constant_to_json, DoubleType()))

    @property
    def name_mapping_json(self) -> list[dict[str, object]] | None:
        """Iceberg's JSON of the name mapping, for the plan."""
        return None if self.name_mapping is None else self.name_mapping.model_dump(mode="json", by_alias=True)

    @property
    def identifier_columns(self) -> tuple[str, ...]:
        """The table's own identifier fields, dotted if nested, in column order."""
        names = self.columns.identifier_field_names()
        return tuple(name for name in self.columns.column_names if name in names)

    @property
    def field_ids(self) -> dict[str, int]:
        """Field ids by dotted name, of nested fields too."""
        return {name: field_id for field_id, name in index_name_by_id(self.columns).items()}

    @property
    def defaulted(self) -> frozenset[str]:
        """Dotted names of columns with a value in files that lack them."""
        fields = index_by_id(self.columns)
        return frozenset(name for name, each in self.field_ids.items() if fields[each].initial_default is not None)

    def select(self, names: Sequence[str]) -> Self:
        """The schema with only some columns, in the table's order.

        Args:
            names: top-level columns, or dotted ones, which leave out their struct's other fields; case sensitive.
        """
        columns = selected_schema(self.columns, names)
        return type(self).of(columns, self.name_mapping)

    def with_row_id(self) -> Self:
        """The same columns, followed by the row id."""
        row_id = NestedField(_ROW_ID_FIELD_ID, self.ROW_ID, LongType(), required=False)
        return type(self).of(Schema(*self.columns.fields, row_id), self.name_mapping)

    def plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of these columns, text decoded if it is dictionary-encoded."""
        columns = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)

    def rows_of(self, other: "TableSchema", rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of another schema with these columns; a missing column gets its initial default.

        Nulls of a column that became required later are kept.
        """
        columns = file_columns(rows.schema, create_mapping_from_schema(other.columns))
        optional = Schema(*(field.model_copy(update={"required": False}) for field in self.columns.fields))
        return plan_projection(columns, optional, {}).apply(rows, {place: place for place in range(rows.num_columns)})


def _with_float_defaults(document: Any, converted: Callable[[Any], Any]) -> Any:
    """The JSON with other defaults of floats, in nested columns too."""
    if isinstance(document, Sequence) and not isinstance(document, str):
        return [_with_float_defaults(each, converted) for each in document]
    if not isinstance(document, Mapping):
        return document
    is_float = document.get("type") in _FLOATS
    return {
        key: converted(value)
        if is_float and key in _DEFAULTS and value is not None
        else _with_float_defaults(value, converted)
        for key, value in document.items()
    }


def require_comparable_states(
    metadata: TableMetadata, start_snapshot_id: int, end_snapshot_id: int, *, table: str
) -> None:
    """Raise unless the type of each field id is the same in both states, or was promoted.

    They need the same initial default too, which rows of older files have. Schema evolution ensures both; ``CREATE OR
    REPLACE TABLE`` gives a column's field id to any column of the same name.
    """
    start, end = (TableSchema.at(metadata, each).columns for each in (start_snapshot_id, end_snapshot_id))
    before = index_by_id(covering_schema(start, [end]))
    after = index_by_id(covering_schema(end, [start]))
    for field_id in before.keys() & after.keys():
        was, now = before[field_id], after[field_id]
        if _kind(was.field_type) == _kind(now.field_type) and _have_equal_defaults(was, now):
            continue
        raise TerminalError(
            f"table {table} was replaced by one with another schema: column {end.find_column_name(field_id)!r} is "
            f"{now.field_type} at snapshot {end_snapshot_id} and was {was.field_type} at snapshot {start_snapshot_id}, "
            "or has another initial default, so no schema fits both states; give the pipeline another name and "
            "sink.path to start over"
        )


def _kind(of: IcebergType) -> object:
    """Without the fields of nested types, which are compared one by one."""
    return of if of.is_primitive else type(of)


def _have_equal_defaults(one: NestedField, other: NestedField) -> bool:
    was, now = initial_value(one), initial_value(other)
    if not was.is_valid or not now.is_valid:
        return bool(was.is_valid == now.is_valid)
    # NaN is the one value that differs from itself.
    return bool(was.equals(now)) or not (was.equals(was) or now.equals(now))


def _schema_at(metadata: TableMetadata, snapshot_id: int | None) -> Schema:
    if snapshot_id is None:
        return metadata.schema()
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise TerminalError(
            f"snapshot {snapshot_id} is not in the metadata of the table at {metadata.location}: it "
            "expired, or the catalog leaves it out"
        )
    if snapshot.schema_id is None:
        return metadata.schema()
    schema = metadata.schema_by_id(snapshot.schema_id)
    if schema is None:
        raise TerminalError(
            f"schema {snapshot.schema_id} of snapshot {snapshot_id} is not in the metadata of the table at "
            f"{metadata.location}: the metadata is damaged"
        )
    return schema


def schemas_before(metadata: TableMetadata, snapshot_ids: Iterable[int | None]) -> list[Schema]:
    """The schemas of snapshots and ancestors; if one is gone, all that may be its own."""
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    schema_ids: set[int] = set()
    for lineage in (list(ancestry(snapshots, snapshot_id)) for snapshot_id in snapshot_ids):
        for snapshot in lineage:
            if snapshot.schema_id is None:
                return metadata.schemas
            schema_ids.add(snapshot.schema_id)
        if lineage and lineage[-1].parent_snapshot_id not in snapshots:
            # Newer schemas have larger ids, so the schema of an ancestor that is gone is among the smaller ones.
            youngest = lineage[-1].schema_id or 0
            schema_ids.update(schema.schema_id for schema in metadata.schemas if schema.schema_id < youngest)
    return [schema for schema in metadata.schemas if schema.schema_id in schema_ids]


_ROW_ID_FIELD_ID: Final = 2147483540


def covering_schema(schema: Schema, others: Sequence[Schema]) -> Schema:
    """The same columns, optional or of a promoted type if they are so in another schema.

    Values that one of several states allowed must pass: nulls of a column required elsewhere, and values that do not
    fit the type from before a promotion. Identifier fields stay required.

    >>> id, x = NestedField(1, "id", LongType(), required=True), NestedField(2, "x", IntegerType(), required=True)
    >>> later = Schema(id, NestedField(2, "y", LongType(), required=False))
    >>> print(covering_schema(Schema(id, x), [later]))
    table {
      1: id: required long
      2: x: optional long
    }
    """
    fields = [index_by_id(other) for other in others]
    optional = {field_id for each in fields for field_id, field in each.items() if field.optional}
    # Rows of a later schema lack the columns that it dropped; those of an earlier one have them, or a default.
    later = [index_by_id(other) for other in others if other.schema_id > schema.schema_id]
    optional |= {field_id for each in later for field_id in index_by_id(schema).keys() - each.keys()}
    relaxed = _Relaxed(optional, fields)
    relaxed.optional -= _held(schema)
    found = relaxed.fields(schema.fields)
    if tuple(found) == schema.fields:
        return schema
    return Schema(*found, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)


def widest_types(schemas: Iterable[Schema]) -> Mapping[int, PrimitiveType]:
    """The widest type of each primitive column by field id, if its other types were promoted to it.

    ``CREATE OR REPLACE TABLE`` gives a column's field id to any column of the same name. No manifest says of which type
    its values are: the column is left out.

    >>> one, other = (NestedField(1, "a", kind, required=False) for kind in (IntegerType(), LongType()))
    >>> widest_types([Schema(other), Schema(one)])
    {1: LongType()}
    >>> widest_types([Schema(one), Schema(NestedField(1, "a", DateType(), required=False))])
    {}
    """
    found: dict[int, set[IcebergType]] = {}
    for schema in schemas:
        for field_id, field in index_by_id(schema).items():
            found.setdefault(field_id, set()).add(field.field_type)
    widest = {field_id: _widest(types) for field_id, types in found.items()}
    return {field_id: kind for field_id, kind in widest.items() if isinstance(kind, PrimitiveType)}


_PROMOTED: Final[Mapping[type[IcebergType], tuple[type[IcebergType], ...]]] = {
    IntegerType: (LongType,),
    FloatType: (DoubleType,),
    DateType: (TimestampType, TimestampNanoType),
}
"""Iceberg spec, "Schema Evolution"."""


def _held(schema: Schema) -> set[int]:
    """Identifier fields and structs around them, which Iceberg requires."""
    paths = struct_paths(schema)
    held = [paths[field_id] for field_id in schema.identifier_field_ids if field_id in paths]
    return {field_id for field_id, path in paths.items() if any(each[: len(path)] == path for each in held)}


class _Relaxed:
    def __init__(self, optional: set[int], others: Sequence[Mapping[int, NestedField]]) -> None:
        self.optional = optional
        self._others = others

    def fields(self, fields: Iterable[NestedField]) -> list[NestedField]:
        return [
            field.model_copy(
                update={
                    "required": field.required and field.field_id not in self.optional,
                    "field_type": self._type(field.field_id, field.field_type),
                }
            )
            for field in fields
        ]

    def _type(self, field_id: int, kind: IcebergType) -> IcebergType:
        match kind:
            case StructType():
                return StructType(*self.fields(kind.fields))
            case ListType():
                (element,) = self.fields([kind.element_field])
                return ListType(kind.element_id, element.field_type, element_required=element.required)
            case MapType():
                key, value = self.fields([kind.key_field, kind.value_field])
                return MapType(
                    kind.key_id, key.field_type, kind.value_id, value.field_type, value_required=value.required
                )
        for other in self._others:
            if field_id in other and _is_promoted(kind, other[field_id].field_type):
                kind = other[field_id].field_type
        return kind


def _is_promoted(kind: IcebergType, other: IcebergType) -> bool:
    if isinstance(kind, DecimalType) and isinstance(other, DecimalType):
        return kind.scale == other.scale and kind.precision < other.precision
    return isinstance(other, _PROMOTED.get(type(kind), ())) or (isinstance(kind, UnknownType) and other.is_primitive)


def _widest(types: Collection[IcebergType]) -> IcebergType | None:
    widest = next(iter(types))
    for each in types:
        if _is_promoted(widest, each):
            widest = each
    return widest if all(each == widest or _is_promoted(each, widest) for each in types) else None
