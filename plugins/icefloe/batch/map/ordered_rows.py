"""Rows of two files that are equal and in the same order, cancelled batch by batch as the files are read.

Rows that are gone or new are left, and so are all rows from the place on at which the order is lost. That shows in
samples of a few rows, so files in another order cost little more than hashing them.
"""

from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa

from icefloe.batch.fast_ways import FastWay
from icefloe.batch.map.file_window import FileWindow
from icefloe.batch.rows.row_set import Positions
from icefloe.changes.alignment import differing_rows
from icefloe.changes.matching import digests_of, pairs_in_order, telling_columns

_SAMPLE_ROWS: Final = 2_048
_TELLING_ROWS: Final = 1_024
LEAST_MATCHED_ROWS = 16_384
"""With fewer rows in both files, hashing takes less time than looking for partners."""
_PROBE_ROWS: Final = 64
_MOST_DIFFERING: Final = 0.25
"""If a greater share of rows differs from its partners, hashing is cheaper."""
_LEAST_PAIRED: Final = 0.3
"""If a smaller share has partners, hashing is cheaper. If every second row is gone, half of a sample has partners."""


def cancel_in_order(removed: FileWindow, added: FileWindow, *, ways: Collection[FastWay]) -> FastWay | None:
    """Cancels equal rows until one of the files ends, the order is lost, or too many rows are left.

    Args:
        removed: one file, unread.
        added: the other one.
        ways: ALIGNED compares rows at equal positions, MATCHED finds partners by a few columns.

    Returns:
        The last way that was taken; None if none fitted.
    """
    taken: FastWay | None = None
    may_match = FastWay.MATCHED in ways and removed.rows_ahead + added.rows_ahead >= LEAST_MATCHED_ROWS
    telling: list[int] | None = None if may_match else []
    while removed.fill() and added.fill() and not (removed.has_too_many or added.has_too_many):
        if FastWay.ALIGNED in ways and _cancel_aligned(removed, added):
            taken = FastWay.ALIGNED
            continue
        if telling is None:
            telling = telling_columns(removed.head(_TELLING_ROWS))
        if telling and _cancel_matched(removed, added, telling):
            taken = FastWay.MATCHED
        elif telling and _skip(removed, added, telling):
            continue
        elif 2 * (removed.remaining.num_rows + added.remaining.num_rows) < removed.rows_done + added.rows_done:
            # Most rows were cancelled until here, so these may be many changes in one place.
            rows = min(removed.window.num_rows, added.window.num_rows)
            removed.finish(rows)
            added.finish(rows)
        else:
            break
    return taken


def _cancel_aligned(removed: FileWindow, added: FileWindow) -> bool:
    """Cancels equal rows at equal places of the windows; False if few are equal."""
    rows = min(removed.window.num_rows, added.window.num_rows)
    # The last rows, because the rows after the first gap differ.
    sample = max(rows - _SAMPLE_ROWS // 2, 0)
    last = (side.window.slice(sample, rows - sample) for side in (removed, added))
    if len(differing_rows(*last)) > _MOST_DIFFERING * (rows - sample):
        return False
    unequal = differing_rows(removed.head(rows), added.head(rows))
    removed.finish(rows, unequal)
    added.finish(rows, unequal)
    return True


def _cancel_matched(removed: FileWindow, added: FileWindow, telling: list[int]) -> bool:
    """Cancels equal rows that are in the same order in the windows; False if few are."""
    # removed   a b c d e      b was deleted, x inserted:  a c d e
    # added     a c d x e      side by side                a c d e
    heads = removed.head(_SAMPLE_ROWS), added.head(_SAMPLE_ROWS)
    if _partners(*heads, telling) is None:
        return False
    # The last rows of a batch often are a short window. A long one next to it would be searched in vain.
    longest = 2 * min(side.window.num_rows for side in (removed, added)) + _SAMPLE_ROWS
    heads = removed.head(longest), added.head(longest)
    found = _partners(*heads, telling)
    if found is None:
        return False
    for side, partners in zip((removed, added), found, strict=True):
        rows, equal = partners
        is_left = np.ones(rows, np.bool_)
        is_left[equal] = False
        side.finish(rows, np.flatnonzero(is_left))
    # If both windows have rows left, their partners are not among them. Partners of both cannot be further on,
    # since these would cross. The shorter rest is likely to have none.
    rests = removed.window.num_rows, added.window.num_rows
    shorter = removed if rests[0] < rests[1] else added
    shorter.finish(shorter.window.num_rows)
    return True


def _partners(
    one: pa.RecordBatch, other: pa.RecordBatch, telling: list[int]
) -> tuple[tuple[int, Positions], tuple[int, Positions]] | None:
    """Of each batch the rows up to the last partner, and the places of rows that are equal to their partners."""
    of_one, of_other = pairs_in_order(
        *(digests_of([batch.column(place) for place in telling]) for batch in (one, other))
    )
    if len(of_one) < _LEAST_PAIRED * min(one.num_rows, other.num_rows):
        return None
    differing = differing_rows(_picked(one, of_one), _picked(other, of_other))
    if len(differing) > _MOST_DIFFERING * len(of_one):
        return None
    return (
        (int(of_one[-1]) + 1, np.delete(of_one, differing)),
        (int(of_other[-1]) + 1, np.delete(of_other, differing)),
    )


def _picked(batch: pa.RecordBatch, places: Positions) -> pa.RecordBatch:
    if len(places) == places[-1] + 1:
        return batch.slice(0, len(places))
    return batch.take(pa.array(places))


def _skip(removed: FileWindow, added: FileWindow, telling: list[int]) -> bool:
    """Leaves rows that are gone or new in one piece, up to where the rows are the same; False if that is not found."""
    longer, shorter = (removed, added) if removed.rows_ahead > added.rows_ahead else (added, removed)
    surplus = longer.rows_ahead - shorter.rows_ahead
    if surplus < _SAMPLE_ROWS // 2:
        return False
    searched, probe = longer.window, shorter.head(_PROBE_ROWS)
    places, _ = pairs_in_order(*(digests_of([batch.column(place) for place in telling]) for batch in (searched, probe)))
    if len(places) >= _LEAST_PAIRED * probe.num_rows and places[0]:
        longer.finish(int(places[0]))
        return True
    if surplus < searched.num_rows or len(places):
        return False
    longer.finish(searched.num_rows)
    return True
