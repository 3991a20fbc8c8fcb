"""A history as a value: a table and what is done to it, with nothing in it that a writer decides.

Rows are lists of small numbers, which `column_values` turns into values of whatever type a column has when the row is
written; files, positions, columns and snapshots are named by numbers that are taken modulo how many there are. So any
part of a history can be left out and the rest still means something: that is what shrinking needs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

__all__ = ["Column", "History", "Operation", "PartitionField", "TableShape"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A top-level column; ``type`` is a name of `column_values.TYPES`."""

    name: str
    type: str
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """A field of the first partition spec: ``bucket[2]`` of a column."""

    column: str
    transform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """The table that a history begins with."""

    format_version: int
    columns: tuple[Column, ...]
    partitioned_by: tuple[PartitionField, ...] = ()
    identifier_fields: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The shape that `asdict` made a mapping of."""
        return cls(
            format_version=document["format_version"],
            columns=tuple(Column(**each) for each in document["columns"]),
            partitioned_by=tuple(PartitionField(**each) for each in document.get("partitioned_by", ())),
            identifier_fields=tuple(document.get("identifier_fields", ())),
            properties=dict(document.get("properties", {})),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing done to the table: ``name`` says who does what, the arguments are JSON."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A table, what is done to it in order, and the seed that chooses what is asked about it.

    Attributes:
        seed: chooses ranges, identities and settings of the checks, nothing about the table.
        writer: which bench it needs: ``pyiceberg``, ``java`` or ``sql``.
        shape: of the table.
        operations: in order; those that a writer refuses, or that find nothing to act on, are passed over.
    """

    seed: int
    writer: str
    shape: TableShape
    operations: tuple[Operation, ...]

    def to_json(self) -> str:
        """One line, which `from_json` reads."""
        document = {
            "seed": self.seed,
            "writer": self.writer,
            "shape": asdict(self.shape),
            "operations": [{"do": each.name, **each.arguments} for each in self.operations],
        }
        return json.dumps(document, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The history that `to_json` wrote."""
        document = json.loads(text)
        return cls(
            seed=document["seed"],
            writer=document["writer"],
            shape=TableShape.of(document["shape"]),
            operations=operations_of(document["operations"]),
        )


def operations_of(documents: Sequence[Mapping[str, Any]]) -> tuple[Operation, ...]:
    """Operations from JSON mappings with their name under ``do``."""
    return tuple(
        Operation(name=each["do"], arguments={key: value for key, value in each.items() if key != "do"})
        for each in documents
    )
