"""Rows with the values that comparisons stumble over, and a strategy for filters over them."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

INNER = StructType(NestedField(21, "x", IntegerType()), NestedField(22, "city", StringType()))
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "i", IntegerType()),
    NestedField(3, "l", LongType()),
    NestedField(4, "f", FloatType()),
    NestedField(5, "d", DoubleType()),
    NestedField(6, "dec", DecimalType(9, 2)),
    NestedField(7, "s", StringType()),
    NestedField(8, "b", BooleanType()),
    NestedField(9, "day", DateType()),
    NestedField(10, "at", TimestampType()),
    NestedField(11, "tz", TimestamptzType()),
    NestedField(12, "t", TimeType()),
    NestedField(13, "u", UUIDType()),
    NestedField(14, "bin", BinaryType()),
    NestedField(15, "fix", FixedType(2)),
    NestedField(16, "place", StructType(NestedField(19, "in", INNER), NestedField(20, "zip", StringType()))),
    NestedField(17, "tags", ListType(23, StringType(), element_required=False)),
    NestedField(18, "two words", StringType()),
)
VALUES: dict[str, list[Any]] = {
    "i": [None, 0, -1, 7, 2**31 - 1, -(2**31)],
    "l": [None, 0, 5, 2**63 - 1, -(2**63)],
    "f": [None, 0.0, -0.0, 0.5, float("nan"), float("inf"), float("-inf")],
    "d": [None, 0.0, -0.0, 0.1, float("nan"), float("inf"), float("-inf")],
    "dec": [None, Decimal("0.00"), Decimal("1.50"), Decimal("-9999999.99"), Decimal("9999999.99")],
    "s": [None, "", "a", "ab", "b", "ü", "\U0001f600", "%", "it's"],
    "b": [None, True, False],
    "day": [None, date(1969, 12, 31), date(2024, 2, 29)],
    "at": [None, datetime(1969, 12, 31, 23, 59, 59), datetime(2024, 2, 29, 12, 30, 0, 1)],
    "tz": [None, datetime(1969, 12, 31, 23, tzinfo=UTC), datetime(2024, 2, 29, 12, 30, tzinfo=UTC)],
    "t": [None, time(0), time(23, 59, 59, 999999)],
    "u": [None, UUID(int=0), UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")],
    "bin": [None, b"", b"\xff"],
    "fix": [None, b"ab"],
    "place": [
        None,
        {"in": None, "zip": "1"},
        {"in": {"x": 7, "city": None}, "zip": None},
        {"in": {"x": 0, "city": "a"}},
    ],
    "tags": [None, [], ["a", None]],
    "two words": [None, "a"],
}
LITERALS: dict[str, list[str]] = {
    "i": ["0", "-1", "7", "2147483647", "-2147483648"],
    "l": ["0", "5", "9223372036854775807", "-9223372036854775808"],
    "f": ["0.0", "0.5", "-1.5", "1000.25"],
    "d": ["0.0", "0.1", "-1.5"],
    "dec": ["0.00", "1.50", "-9999999.99"],
    "s": ["''", "'a'", "'ab'", "'ü'", "'\U0001f600'", "'it''s'"],
    "b": ["true", "FALSE"],
    "day": ["'1969-12-31'", "'2024-02-29'"],
    "at": ["'1969-12-31T23:59:59'", "'2024-02-29T12:30:00.000001'"],
    "tz": ["'1969-12-31T23:00:00+00:00'", "'2024-02-29T13:30:00+01:00'"],
    "t": ["'00:00:00'", "'23:59:59.999999'"],
    "place.in.x": ["0", "7"],
    "place.in.city": ["'a'", "'b'"],
    "place.zip": ["'1'"],
    '"two words"': ["'a'", "'b'"],
}
_ROWS = 130
OPERATORS = ("=", "==", "!=", "<>", "<", "<=", ">", ">=")


def rows() -> pa.Table:
    """Every value above in some row; the columns' values meet in several combinations."""
    columns = {
        name: [values[row // (1 + at % 3) % len(values)] for row in range(_ROWS)]
        for at, (name, values) in enumerate(VALUES.items())
    }
    return pa.Table.from_pydict({"id": range(_ROWS), **columns}, schema=schema_to_pyarrow(SCHEMA))


@dataclass(frozen=True)
class Filter:
    """A filter for us, and the same for PyIceberg without what it decides otherwise.

    Its ``not in`` lets nulls pass, and its ``in`` tells 0.0 from -0.0.
    """

    text: str
    reference: str


@st.composite
def _predicates(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(sorted(LITERALS)))
    literals = st.sampled_from(LITERALS[column])
    match draw(st.sampled_from(["compare", "flipped", "in", "between", "null", "nan", "like", "whole"])):
        case "compare":
            return _same(f"{column} {draw(st.sampled_from(OPERATORS))} {draw(literals)}")
        case "flipped":
            return _same(f"{draw(literals)} {draw(st.sampled_from(OPERATORS))} {column}")
        case "in":
            return _in(column, draw(st.lists(literals, min_size=1, max_size=4)), negated=draw(st.booleans()))
        case "between":
            return _same(f"{column} BETWEEN {draw(literals)} AND {draw(literals)}")
        case "nan":
            return _same(f"{draw(st.sampled_from('fd'))} is {draw(st.sampled_from(['', 'not ']))}nan")
        case "like":
            text = draw(st.sampled_from(["a%", "%", "ab", "ü%", "\\%"]))
            verb = draw(st.sampled_from(["like", "not like", "LIKE"]))
            return _same(f"{draw(st.sampled_from(['s', 'place.in.city']))} {verb} '{text}'")
    named = draw(st.sampled_from([*sorted(LITERALS), "bin", "fix", "place", "place.in"]))
    return _same(f"{named} is {draw(st.sampled_from(['', 'not ']))}null")


def _same(text: str) -> Filter:
    return Filter(text, text)


def _in(column: str, literals: list[str], *, negated: bool) -> Filter:
    text = f"{column} {'not ' if negated else ''}in ({', '.join(literals)})"
    sign, joint = ("!=", " and ") if negated else ("=", " or ")
    return Filter(text, f"({joint.join(f'{column} {sign} {literal}' for literal in literals)})")


def _joined(parts: list[Filter], word: str) -> Filter:
    texts = f" {word} ".join(part.text for part in parts)
    references = f" {word} ".join(part.reference for part in parts)
    return Filter(f"({texts})", f"({references})")


FILTERS: st.SearchStrategy[Filter] = st.recursive(
    _predicates(),
    lambda inner: st.one_of(
        st.builds(_joined, st.lists(inner, min_size=2, max_size=3), st.sampled_from(["and", "or"])),
        inner.map(lambda part: Filter(f"not ({part.text})", f"not ({part.reference})")),
    ),
    max_leaves=5,
)
