"""Checks whether an equality delete file can delete rows of a data file, by the key columns of both in manifests."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyiceberg.types import DoubleType, FloatType

from icefloe.iceberg.filters.column_range import ColumnRange
from icefloe.iceberg.manifests.bounds import Bounded, KeyTypes, decoded_bound

_UNORDERED: Final = (DoubleType, FloatType)
"""Bounds leave NaN out, which equals NaN."""


def key_ranges(
    file: Bounded,
    *,
    field_ids: Sequence[int],
    record_count: int,
    null_value_counts: Mapping[int, int],
    types: KeyTypes,
) -> tuple[ColumnRange, ...]:
    """The known ranges of the key columns of a data file or equality delete file.

    Args:
        file: with its bounds, which may be cut.
        field_ids: of the key.
        record_count: of the file.
        null_value_counts: by field id; a column that is missing may hold nulls, or be missing in the file.
        types: of columns that compare; nothing is known of the other columns.
    """

    def known(field_id: int) -> ColumnRange:
        field_type = types.get(field_id)
        if field_type is None:
            return ColumnRange()
        nulls = null_value_counts.get(field_id)
        lower, upper = file.lower_bounds.get(field_id), file.upper_bounds.get(field_id)
        if isinstance(field_type, _UNORDERED):
            lower = upper = None
        return ColumnRange(
            lower=None if lower is None else decoded_bound(field_type, lower),
            upper=None if upper is None else decoded_bound(field_type, upper),
            may_hold_nulls=nulls != 0,
            may_hold_values=nulls is None or nulls < record_count,
        )

    return tuple(known(field_id) for field_id in field_ids)


def may_share_key(data: Iterable[ColumnRange], deletes: Iterable[ColumnRange]) -> bool:
    """True if some row may have a key that is deleted, given the ranges of the key's columns in the same order.

    >>> small, large = ColumnRange(lower=1, upper=4), ColumnRange(lower=5, upper=9, may_hold_nulls=False)
    >>> may_share_key([small], [large]), may_share_key([small], [small]), may_share_key([small], [ColumnRange()])
    (False, True, True)
    """
    # A key is shared only if every column of it can be: (1 to 4, a to c) and (2 to 9, x to z) share none.
    # A loop takes half of the time of `all`, and a hundred delete files of keys may meet thousands of data files here.
    for one, other in zip(data, deletes, strict=True):  # noqa: SIM110
        if not may_meet(one, other):
            return False
    return True


def may_meet(one: ColumnRange, other: ColumnRange) -> bool:
    """True if two columns may hold an equal value, null included."""
    if one.may_hold_nulls and other.may_hold_nulls:
        return True
    return one.may_hold_values and other.may_hold_values and not (_is_below(one, other) or _is_below(other, one))


def _is_below(one: ColumnRange, other: ColumnRange) -> bool:
    """True if all values of one column are known to be below all values of another."""
    return one.upper is not None and other.lower is not None and bool(one.upper < other.lower)
