"""Ranges of keys in which a table is compared with a sink."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROWS_PER_RANGE: Final = 1 << 21
_MOST_READS: Final = 3
"""The files of a table that is not sorted by its key have rows of all ranges, and are read for each of them."""
FileKeys: TypeAlias = tuple[tuple[int, int] | None, int]
"""The smallest and the largest key of a file, if known, and its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Rows by a column of the key that is a whole number.

    Attributes:
        first: inclusive; None: from the smallest one on, nulls too.
        stop: exclusive; None: to the largest one.
    """

    column: str
    first: int | None = None
    stop: int | None = None

    def __str__(self) -> str:
        first = "" if self.first is None else f" from {self.first} on"
        return self.column + first + ("" if self.stop is None else f" below {self.stop}")

    def among(self, values: pa.Array) -> pa.Array:
        """True for each value in the range."""
        is_in = pa.repeat(pa.scalar(value=True), len(values))
        if self.first is not None:
            is_in = pc.and_(is_in, pc.greater_equal(values, self.first))
        if self.stop is not None:
            is_in = pc.and_(is_in, pc.less(values, self.stop))
        return pc.fill_null(is_in, self.first is None)

    def may_have(self, smallest: int, largest: int) -> bool:
        """False if all values between two are outside; nulls are not between them."""
        return (self.first is None or largest >= self.first) and (self.stop is None or smallest < self.stop)


def ranged_column(names: Sequence[str], columns: pa.Schema) -> str | None:
    """The column of a key whose order is the same everywhere: the first one, if it is a whole number."""
    is_there = bool(names) and names[0] in columns.names
    return names[0] if is_there and pa.types.is_integer(columns.field(names[0]).type) else None


def divided_keys(
    column: str, files: Iterable[FileKeys], *, first: int | None = None, rows_per_range: int = ROWS_PER_RANGE
) -> list[KeyRange]:
    """The ranges from a key on, in order; without ``first`` each key is in one of them."""
    known = list(files)
    # Without bounds nothing says which keys a file has.
    is_known = all(bounds is not None for bounds, _ in known)
    spans = [(*bounds, rows) for bounds, rows in known if bounds is not None and (first is None or bounds[1] >= first)]
    cuts = cut_points(spans, rows_per_range) if is_known else []
    ends = [first, *(cut for cut in cuts if first is None or cut > first), None]
    return [KeyRange(column=column, first=start, stop=stop) for start, stop in pairwise(ends)]


def cut_points(spans: Iterable[tuple[int, int, int]], rows_per_range: int) -> list[int]:
    """Keys that divide the rows of files evenly, if the keys of each file are spread evenly; fewer if files overlap.

    >>> cut_points([(0, 99, 100), (100, 199, 100), (200, 299, 100)], 100)
    [100, 200]
    >>> cut_points([(0, 299, 100), (0, 299, 100), (0, 299, 100)], 10)
    [100, 200]
    """
    files = list(spans)
    if not files:
        return []
    smallest, largest = min(each[0] for each in files), max(each[1] for each in files)
    low, high, rows = (np.array(each, np.float64) for each in zip(*files, strict=True))
    # Of large keys the next float is more than 1 away.
    total, stops = float(rows.sum()), np.maximum(high + 1, np.nextafter(high, np.inf))
    # Rows before each place, which grow between two places as the files there say.
    places, where = np.unique(np.concatenate([low, stops]), return_inverse=True)
    density = rows / (stops - low)
    slopes = np.bincount(where, weights=np.concatenate([density, -density])).cumsum()
    before = np.concatenate([[0.0], (slopes[:-1] * np.diff(places)).cumsum()])
    parts = max(1, -(-int(total) // rows_per_range))
    while True:
        wanted = np.arange(1, parts) * (total / parts)
        found = {round(float(cut)) for cut in np.interp(wanted, before, places)}
        cuts = sorted(cut for cut in found if smallest < cut <= largest)
        # A file is read for each range that it reaches into.
        inside = np.searchsorted(cuts, high, side="right") - np.searchsorted(cuts, low, side="right")
        if parts == 1 or float((rows * (inside + 1)).sum()) <= _MOST_READS * total:
            return cuts
        parts = max(1, min(parts - 1, parts * _MOST_READS // (int(inside.max()) + 1)))
