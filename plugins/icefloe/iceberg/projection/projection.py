"""Projection by field id: from the columns of one file to the columns of the table, planned once per file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from icefloe.iceberg.data_file import Constant, constant_from_json
from icefloe.iceberg.projection.conversions import Conversion, KeepDictionary
from icefloe.iceberg.projection.file_columns import FileColumn, is_list
from icefloe.iceberg.projection.narrow import plan_narrowing
from icefloe.iceberg.projection.nested import Field, FilledField, ListStep, MapStep, Parent, StructStep, TakenField
from icefloe.iceberg.projection.promote import plan_kept_dictionary, plan_promotion
from icefloe.iceberg.schemas.arrow_types import arrow_schema, arrow_type, initial_value
from icefloe.iceberg.unreadable import ColumnError

__all__ = ["Projection", "plan_projection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The plan that turns batches of one file into batches of the table.

    Attributes:
        schema: of the batches that ``apply`` gives.
        fields: one for each column of ``schema``.
    """

    schema: pa.Schema
    fields: Sequence[Field]

    @property
    def positions(self) -> frozenset[int]:
        """The file's columns that must be read."""
        return frozenset(field.position for field in self.fields if isinstance(field, TakenField))

    def apply(self, batch: pa.RecordBatch, positions: Mapping[int, int]) -> pa.RecordBatch:
        """A batch of the table's columns; columns that need not change are not copied.

        Args:
            batch: of the file.
            positions: index in the batch of each column of the file.

        Raises:
            ColumnError: a required column holds a null.
            pa.ArrowInvalid: a value does not fit the table's type.
        """
        parent = Parent(field=lambda position: batch.column(positions[position]), num_rows=batch.num_rows)
        return pa.RecordBatch.from_arrays([field.read(parent) for field in self.fields], schema=self.schema)


def plan_projection(
    columns: Sequence[FileColumn], schema: Schema, constants: Mapping[str, Constant], *, keep_dictionaries: bool = False
) -> Projection:
    """Plan the projection of a file.

    A column that the file lacks is filled with the first of these that exists: the constant of its identity partition,
    its initial default, null (Iceberg spec, "Column Projection").

    Args:
        columns: of the file.
        schema: of the table.
        constants: by source field id, as text.
        keep_dictionaries: text columns that are read dictionary-encoded stay encoded; the schema of the result says so.

    Raises:
        ColumnError: no column has a field id, a required column is missing, or a type may not become the table's type.
    """
    if columns and schema.fields and all(column.field_id is None for column in columns):
        raise ColumnError(
            "its columns have no field ids, and no `schema.name-mapping.default` of the table gives them any: set that "
            "property"
        )
    planner = _Planner(constants, keep_dictionaries=keep_dictionaries)
    target = arrow_schema(schema)
    fields = planner.fields(columns, schema.fields, _Place())
    delivered = [_delivered(field, column) for field, column in zip(fields, target, strict=True)]
    return Projection(schema=pa.schema(delivered), fields=fields)


def _delivered(field: Field, column: pa.Field) -> pa.Field:
    """The column as ``apply`` gives it: dictionary-encoded if the file's dictionary is kept."""
    if isinstance(field, TakenField) and isinstance(field.step, KeepDictionary):
        return column.with_type(pa.dictionary(field.step.index_type, column.type))
    return column


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The planner's place in the schema.

    Attributes:
        path: names from the top.
        parent_may_be_null: True if the file allows the parent to be null.
        hides_nulls: True if an ancestor may be null but the parent may not, so the parent does not show it.
    """

    path: tuple[str, ...] = ()
    parent_may_be_null: bool = False
    hides_nulls: bool = False

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def at(self, name: str) -> "_Place":
        return replace(self, path=(*self.path, name))

    def inside(self, column: FileColumn) -> "_Place":
        # optional a { required b { required c } }:  where a is null, b is not null in the file, because it is required,
        # and c is null. Seen from b this looks like a missing value, so nulls of c are not checked.
        hides = not column.is_nullable and (self.parent_may_be_null or self.hides_nulls)
        return _Place(path=self.path, parent_may_be_null=column.is_nullable, hides_nulls=hides)

    def inside_list(self) -> "_Place":
        return _Place(path=self.path)


class _Planner:
    def __init__(self, constants: Mapping[str, Constant], *, keep_dictionaries: bool) -> None:
        self._constants = constants
        self._keep_dictionaries = keep_dictionaries

    def fields(self, columns: Sequence[FileColumn], wanted: Sequence[NestedField], place: _Place) -> tuple[Field, ...]:
        by_id = {column.field_id: column for column in columns}
        return tuple(self._field(by_id.get(field.field_id), field, place.at(field.name)) for field in wanted)

    def _field(self, column: FileColumn | None, field: NestedField, place: _Place) -> Field:
        if column is None:
            return FilledField(value=self._fill(field, place))
        is_required = field.required and column.is_nullable
        return TakenField(
            position=column.position,
            step=self._step(column, field.field_type, place),
            is_required=is_required,
            checked_name=place.name if is_required and not place.hides_nulls else None,
        )

    def _fill(self, field: NestedField, place: _Place) -> pa.Scalar:
        if str(field.field_id) in self._constants and field.field_type.is_primitive:
            value: object = constant_from_json(field.field_type, self._constants[str(field.field_id)])  # type: ignore[arg-type]
            return pa.scalar(value, arrow_type(field.field_type))
        if field.initial_default is None and field.required:
            raise ColumnError(
                f"required column {place.name!r} is missing and has no initial default: make the column optional, "
                "or rewrite the file with it",
                column=place.name,
            )
        return initial_value(field)

    def _step(self, column: FileColumn, kind: IcebergType, place: _Place) -> Conversion:
        children = column.children
        match kind:
            case StructType() if pa.types.is_struct(column.type):
                return StructStep(
                    target=arrow_type(kind), fields=self.fields(children, kind.fields, place.inside(column))
                )
            case ListType() if is_list(column.type):
                element = self._field(children[0], kind.element_field, place.inside_list().at("element"))
                return ListStep(target=arrow_type(kind), element=element)
            case MapType() if pa.types.is_map(column.type):
                key = self._step(children[0], kind.key_type, place.inside_list().at("key"))
                value = self._field(children[1], kind.value_field, place.inside_list().at("value"))
                return MapStep(target=arrow_type(kind), key=key, value=value)
        step = self._primitive(column, arrow_type(kind), place) if kind.is_primitive else None
        if step is None:
            raise ColumnError(
                f"column {place.name!r} has type {column.type} there, which cannot become the table's {kind}: "
                "rewrite the file",
                column=place.name,
            )
        return step

    def _primitive(self, column: FileColumn, target: pa.DataType, place: _Place) -> Conversion | None:
        if self._keep_dictionaries and len(place.path) == 1:
            kept = plan_kept_dictionary(column.type, target)
            if kept is not None:
                return kept
        return plan_promotion(column.type, target) or plan_narrowing(column.type, target, column=place.name)
