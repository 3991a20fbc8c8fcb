"""Hypothesis strategies for columns of every type of a table, and of further types that Arrow has for them."""

from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

__all__ = ["columns", "leaf_columns"]


def _integers(bits):
    bound = 2 ** (bits - 1)
    return st.integers(-bound, bound - 1) | st.sampled_from([0, 1, -1])


def _decimals(digits, scale):
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda unscaled: Decimal(f"{unscaled}e-{scale}"))


_FLOATS = st.floats() | st.sampled_from([0.0, -0.0, float("nan"), -float("nan")])
_TEXTS = st.text(max_size=40) | st.sampled_from(["", "\0", "\0\0", "a" * 8, "a" * 9, "a" * 16, "a" * 17, "Zürich"])
_BYTES = st.binary(max_size=40) | st.sampled_from([bytes(count) for count in range(20)])
_DAYS = st.integers(-100_000, 100_000)

LEAVES = {
    pa.bool_(): st.booleans(),
    pa.int8(): _integers(8),
    pa.int16(): _integers(16),
    pa.int32(): _integers(32),
    pa.int64(): _integers(64),
    pa.uint8(): st.integers(0, 2**8 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float16(): st.floats(width=16),
    pa.float32(): st.floats(width=32),
    pa.float64(): _FLOATS,
    pa.date32(): _DAYS,
    pa.date64(): _DAYS.map(lambda days: days * 86_400_000),
    pa.time32("s"): st.integers(0, 86_399),
    pa.time32("ms"): st.integers(0, 86_399_999),
    pa.time64("us"): st.integers(0, 86_399_999_999),
    pa.time64("ns"): st.integers(0, 86_399_999_999_999),
    pa.timestamp("s"): _integers(40),
    pa.timestamp("ms", "UTC"): _integers(50),
    pa.timestamp("us"): _integers(64),
    pa.timestamp("us", "UTC"): _integers(64),
    pa.timestamp("ns"): _integers(64),
    pa.duration("us"): _integers(64),
    pa.decimal32(9, 2): _decimals(9, 2),
    pa.decimal64(18, 0): _decimals(18, 0),
    pa.decimal128(9, 2): _decimals(9, 2),
    pa.decimal128(38, 10): _decimals(38, 10),
    pa.decimal256(38, 3): _decimals(38, 3),
    pa.string(): _TEXTS,
    pa.large_string(): _TEXTS,
    pa.string_view(): _TEXTS,
    pa.binary(): _BYTES,
    pa.large_binary(): _BYTES,
    pa.binary_view(): _BYTES,
    pa.binary(16): st.binary(min_size=16, max_size=16),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.binary(0): st.just(b""),
    pa.null(): st.none(),
}


def _struct(parts):
    fields = [(f"f{index}", kind) for index, (kind, _) in enumerate(parts)]
    names = [name for name, _ in fields]
    return pa.struct(fields), st.tuples(*(values for _, values in parts)).map(
        lambda row: dict(zip(names, row, strict=True))
    )


def _lists(part):
    kind, values = part
    lists = st.lists(values, max_size=4)
    sized = st.lists(values, min_size=2, max_size=2)
    return st.sampled_from([(pa.list_(kind), lists), (pa.large_list(kind), lists), (pa.list_(kind, 2), sized)])


def _map(key, part):
    kind, values = part
    return pa.map_(key, kind), st.lists(st.tuples(LEAVES[key], values), max_size=4)


def _nullable(part):
    kind, values = part
    return kind, st.none() | values


_LEAF = st.sampled_from(list(LEAVES.items())).map(_nullable)
_NESTED = st.recursive(
    _LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(_struct),
        inner.flatmap(_lists),
        st.builds(_map, st.sampled_from([pa.string(), pa.int32(), pa.binary()]), inner),
    ).map(_nullable),
    max_leaves=4,
)


@st.composite
def columns(draw, parts=_NESTED):
    """A type and a list of its values."""
    kind, values = draw(parts)
    return kind, draw(st.lists(values, min_size=1, max_size=12))


leaf_columns = columns(parts=_LEAF)
