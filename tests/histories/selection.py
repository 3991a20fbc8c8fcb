"""The parts that a question leaves out: columns that are not named, rows that a filter does not let pass."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
)

from histories.column_values import value_of

__all__ = ["EVERYTHING", "Comparison", "Selection", "random_selection"]

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPARED: Final = (BooleanType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, StringType)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column with a value (None: is null), perhaps negated, as SQL's WHERE has it."""

    column: str
    sign: str
    value: Any
    is_negated: bool = False

    @property
    def text(self) -> str:
        """As `read_changes` takes it."""
        literal = f"'{self.value}'" if isinstance(self.value, str) or hasattr(self.value, "isoformat") else self.value
        plain = f"{self.column} is null" if self.value is None else f"{self.column} {self.sign} {literal}"
        return f"not ({plain})" if self.is_negated else plain

    def lets_pass(self, row: Mapping[str, Any]) -> bool:
        """True if the comparison is true of a row; it is neither true nor false of a null."""
        found = row[self.column]
        if self.value is None:
            return (found is None) is not self.is_negated
        return found is not None and _OPERATORS[self.sign](found, self.value) is not self.is_negated


@dataclass(frozen=True, slots=True)
class Selection:
    """Columns (empty: all) and a filter that is the conjunction of comparisons."""

    columns: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = ()

    def arguments(self) -> dict[str, Any]:
        """As keyword arguments of `read_changes`."""
        filter_text = " and ".join(f"({each.text})" for each in self.comparisons)
        return {"columns": list(self.columns) or None, "filter": filter_text or None}

    def schema(self, schema: Schema) -> Schema:
        """The rest of a schema."""
        return schema.select(*self.columns) if self.columns else schema

    def lets_pass(self, row: Mapping[str, Any]) -> bool:
        """True if a whole row passes."""
        return all(each.lets_pass(row) for each in self.comparisons)


EVERYTHING: Final = Selection()


def random_selection(random: Random, schema: Schema) -> Selection:
    """Some columns, those that identify rows among them, and some comparisons."""
    names = [field.name for field in schema.fields]
    columns = random.sample(names, random.randint(1, len(names))) if random.random() < 0.6 else []
    if columns:
        columns += sorted(schema.identifier_field_names() - set(columns))
    fields = [field for field in schema.fields if isinstance(field.field_type, PrimitiveType)]
    compared = random.sample(fields, min(len(fields), random.choice((0, 1, 1, 2))))
    return Selection(tuple(columns), tuple(_comparison(random, field) for field in compared))


def _comparison(random: Random, field: NestedField) -> Comparison:
    seed = random.randrange(4) if isinstance(field.field_type, _COMPARED) and random.random() < 0.8 else None
    value = value_of(field.field_type, seed)
    # NaN is no literal of a filter, and a zero byte none of its texts.
    usable = value if value == value and "\0" not in str(value) and value != "" else None
    signs = ("=", "!=") if isinstance(usable, bool) else tuple(_OPERATORS)
    return Comparison(field.name, random.choice(signs), usable, is_negated=random.random() < 0.2)
