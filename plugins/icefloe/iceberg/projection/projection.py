"""Projection by field id: from the columns of one file to the columns of the table, planned once per file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    fields = planner.fields(columns, schema.fields, ())
    delivered = [_delivered(field, column) for field, column in zip(fields, target, strict=True)]
    return Projection(schema=pa.schema(delivered), fields=fields)


def _delivered(field: Field, column: pa.Field) -> pa.Field:
    """The column as ``apply`` gives it: dictionary-encoded if the file's dictionary is kept."""
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
            required_name=_name(path) if field.required and column.is_nullable else None,
        )

    def _fill(self, field: NestedField, path: _Path) -> pa.Scalar:
        if str(field.field_id) in self._constants and field.field_type.is_primitive:
            value: object = constant_from_json(field.field_type, self._constants[str(field.field_id)])  # type: ignore[arg-type]
            return pa.scalar(value, arrow_type(field.field_type))
        if field.initial_default is None and field.required:
            raise ColumnError(
                f"required column {_name(path)!r} is missing and has no initial default: make the column optional, "
                "or rewrite the file with it",
                column=_name(path),
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
                "rewrite the file",
                column=_name(path),
            )
        return step

    def _primitive(self, column: FileColumn, target: pa.DataType, path: _Path) -> Conversion | None:
        if self._keep_dictionaries and len(path) == 1:
            kept = plan_kept_dictionary(column.type, target)
            if kept is not None:
                return kept
        return plan_promotion(column.type, target) or plan_narrowing(column.type, target, column=_name(path))


def _name(path: _Path) -> str:
    return ".".join(path)
