"""A row filter: selects rows of a table by an Iceberg expression over the names of one schema."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import extract_field_ids
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from icefloe.iceberg.filters.filter_binding import bind_filter
from icefloe.iceberg.filters.filter_mask import filter_mask
from icefloe.iceberg.filters.filter_syntax import comparisons, parse_filter
from icefloe.iceberg.schemas.struct_paths import struct_paths
from icefloe.pipeline.expanded_text import ExpandedText

__all__ = ["RowFilter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """A filter that is bound to a schema.

    A row passes if the expression is true, as in SQL's WHERE: a comparison with null is not true, and neither is its
    negation. NaN is equal to nothing and neither less nor greater than anything, as in PyIceberg's scans.

    Attributes:
        text: as it was written, ``${ENV}`` unexpanded.
        expression: bound, without ``not``.
        fields: the columns that it compares; for a nested column the innermost field.
        paths: by field id, the names that lead from the top of the schema to a column.
        compared: by each name in the text, the values that the column is compared with.
        named: by each name in the text, its column.
    """

    text: str
    expression: BooleanExpression
    fields: tuple[NestedField, ...]
    paths: Mapping[int, tuple[str, ...]]
    compared: Mapping[str, Sequence[Any]]
    named: Mapping[str, NestedField]

    @classmethod
    def parse(cls, text: str, schema: Schema, *, table: str, written: str | None = None) -> Self:
        """The filter in a text, over the columns of a schema.

        Args:
            text: an Iceberg expression; names are case sensitive, and dotted if nested in structs.
            schema: of the rows.
            table: its name, for errors.
            written: the text with its ``${ENV}``, which errors quote; None if it has no ``${ENV}``.

        Raises:
            TerminalError: the text is not an expression, a name is not a column, or a value does not fit its column's
                type.
        """
        given = ExpandedText.of(text, written)
        parsed = parse_filter(text, written=written)
        expression = bind_filter(parsed, schema, table=table, given=given)
        fields = tuple(schema.find_field(field_id) for field_id in sorted(extract_field_ids(expression)))
        compared: dict[str, list[Any]] = {}
        for name, values in comparisons(parsed):
            compared.setdefault(name, []).extend(values)
        return cls(
            text=given.written,
            expression=expression,
            fields=fields,
            paths=struct_paths(schema),
            compared=compared,
            named={name: schema.find_field(name) for name in compared},
        )

    @property
    def columns(self) -> frozenset[str]:
        """The top-level columns that it looks at."""
        return frozenset(self.paths[field.field_id][0] for field in self.fields)

    @property
    def field_ids(self) -> frozenset[int]:
        """The field ids of the top-level columns that it looks at."""
        ids = {path[0]: field_id for field_id, path in self.paths.items() if len(path) == 1}
        return frozenset(ids[name] for name in self.columns)

    def rounds(self, name: str) -> bool:
        """True if a column is compared with other numbers while it is a float than while it is a double."""
        numbers = [float(value) for value in self.compared[name]]
        narrow = [pa.scalar(number, pa.float64()).cast(pa.float32(), safe=False).as_py() for number in numbers]
        # A number beyond all floats is compared as it is.
        return any(not math.isinf(near) and near != number for near, number in zip(narrow, numbers, strict=True))

    def mask(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Mask of the rows that pass.

        Args:
            batch: has at least ``columns``, in the Arrow types of the schema; text may be dictionary-encoded.
        """
        return filter_mask(self.expression, batch, self.paths)
