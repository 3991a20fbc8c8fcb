"""Changes of schema and partition spec, the same words for PyIceberg and for Java."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.table.update.spec import UpdateSpec
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType, NestedField

__all__ = [
    "JavaPartitionEdits",
    "JavaSchemaEdits",
    "PartitionEdits",
    "PyIcebergPartitionEdits",
    "PyIcebergSchemaEdits",
    "SchemaEdits",
    "java_type",
]


class PyIcebergSchemaEdits:
    def __init__(self, update: UpdateSchema) -> None:
        self._update = update

    def add(self, path: Sequence[str], kind: IcebergType, default: Any = None) -> None:
        self._update.add_column(tuple(path), kind, default_value=default)

    def drop(self, path: Sequence[str]) -> None:
        self._update.delete_column(tuple(path))

    def rename(self, path: Sequence[str], name: str) -> None:
        self._update.rename_column(tuple(path), name)

    def promote(self, path: Sequence[str], kind: IcebergType) -> None:
        self._update.update_column(tuple(path), field_type=kind)

    def move_first(self, path: Sequence[str]) -> None:
        self._update.move_first(tuple(path))

    def make_optional(self, path: Sequence[str]) -> None:
        self._update.update_column(tuple(path), required=False)

    def identify(self, names: Sequence[str]) -> None:
        self._update.set_identifier_fields(*names)


class JavaSchemaEdits:
    def __init__(self, update: Any, iceberg: Any, strings: Any) -> None:
        self._update = update
        self._iceberg = iceberg
        self._strings = strings

    def add(self, path: Sequence[str], kind: IcebergType, default: Any = None) -> None:
        *parents, name = path
        parent = [".".join(parents)] if parents else []
        given = [] if default is None else [self._iceberg.expressions.Literal.of(default)]
        self._update.addColumn(*parent, name, java_type(self._iceberg, kind), *given)

    def drop(self, path: Sequence[str]) -> None:
        self._update.deleteColumn(".".join(path))

    def rename(self, path: Sequence[str], name: str) -> None:
        self._update.renameColumn(".".join(path), name)

    def promote(self, path: Sequence[str], kind: IcebergType) -> None:
        self._update.updateColumn(".".join(path), java_type(self._iceberg, kind))

    def move_first(self, path: Sequence[str]) -> None:
        self._update.moveFirst(".".join(path))

    def make_optional(self, path: Sequence[str]) -> None:
        self._update.makeColumnOptional(".".join(path))

    def identify(self, names: Sequence[str]) -> None:
        self._update.setIdentifierFields(self._strings(names))


class PyIcebergPartitionEdits:
    def __init__(self, update: UpdateSpec) -> None:
        self._update = update

    def add(self, column: str, transform: str) -> None:
        self._update.add_field(column, parse_transform(transform))

    def drop(self, name: str) -> None:
        self._update.remove_field(name)


class JavaPartitionEdits:
    def __init__(self, update: Any, iceberg: Any) -> None:
        self._update = update
        self._expressions = iceberg.expressions.Expressions

    def add(self, column: str, transform: str) -> None:
        name, _, argument = transform.partition("[")
        if name == "identity":
            self._update.addField(column)
        elif argument:
            self._update.addField(getattr(self._expressions, name)(column, int(argument.rstrip("]"))))
        else:
            self._update.addField(getattr(self._expressions, name)(column))

    def drop(self, name: str) -> None:
        self._update.removeField(name)


SchemaEdits = PyIcebergSchemaEdits | JavaSchemaEdits
"""The edits of columns; a path inside structs is a sequence of names."""
PartitionEdits = PyIcebergPartitionEdits | JavaPartitionEdits


def java_type(iceberg: Any, kind: IcebergType) -> Any:
    """Java's twin of a type."""
    schema = Schema(NestedField(1, "only", kind, required=False))
    return iceberg.SchemaParser.fromJson(schema.model_dump_json()).findField("only").type()
