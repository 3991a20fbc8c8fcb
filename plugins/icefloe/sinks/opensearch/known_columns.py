"""The columns whose values the documents of an index have: a name alone does not say which column it is of."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from icefloe.sinks.batch_to_deliver import ProvenBatch


def known_columns(batch: ProvenBatch) -> dict[str, int]:
    """Field ids of the columns that the documents of a batch show, by dotted name; empty if the batch has none."""
    shown = _Shown.of(batch)
    return {name: field_id for name, field_id in batch.field_ids.items() if shown.has(name)}


def other_column(known: Mapping[str, int], batch: ProvenBatch) -> str | None:
    """A column of a batch whose name is known of another one.

    Args:
        known: field ids by the names under which documents have their values.
        batch: the next batch.
    """
    columns = known_columns(batch)
    return next((name for name, field_id in columns.items() if known.get(name, field_id) != field_id), None)


def column_with_default(known: Mapping[str, int], batch: ProvenBatch) -> str | None:
    """A new column of a batch that has a value in the rows before it, and so in no document.

    Args:
        known: field ids by the names under which documents have their values.
        batch: the next batch.
    """
    # A field of a new struct has no value in the rows before it, unless the struct has one.
    added = [name for name in sorted(batch.defaulted) if name not in known and not _is_inside_new(name, known, batch)]
    return next(filter(_Shown.of(batch).has, added), None)


def _is_inside_new(name: str, known: Mapping[str, int], batch: ProvenBatch) -> bool:
    parent = name.rpartition(".")[0]
    return parent in batch.field_ids and parent not in known


@dataclass(frozen=True, slots=True)
class _Shown:
    """The dotted names that documents show: columns, fields of structs, and what is inside of lists and maps."""

    names: frozenset[str]
    nested: tuple[str, ...]

    @classmethod
    def of(cls, batch: ProvenBatch) -> Self:
        kinds = dict(_kinds(batch.shown_schema))
        nested = (name for name, kind in kinds.items() if pa.types.is_nested(kind) and not pa.types.is_struct(kind))
        return cls(frozenset(kinds), tuple(f"{name}." for name in nested))

    def has(self, name: str) -> bool:
        return name in self.names or name.startswith(self.nested)


def _kinds(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[tuple[str, pa.DataType]]:
    for field in fields:
        yield f"{prefix}{field.name}", field.type
        if pa.types.is_struct(field.type):
            yield from _kinds(field.type, f"{prefix}{field.name}.")
