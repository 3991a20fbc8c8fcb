"""Equal rows of different identities, brought together by row hash and cancelled."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from icefloe.batch.reduce.spilled_moves import SpilledMoves, WeightedHashes
from icefloe.changes.consolidate import consolidate
from icefloe.changes.identity_moves import SharedWeights, combined_hashes
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.reduce_ranges import CoalescePlan
from icefloe.storage.local_folders import local_folders

_BYTES_PER_ROW: Final = 192
"""Two hashes, ordinal and weight of a row, and memory to consolidate and compare them."""
_MAX_SLICE_BITS: Final = 10
_LEAST_ROWS: Final = 16


@contextmanager
def matched_rows(
    pieces: Iterable[WeightedHashes], *, rows: int, coalesce_plan: CoalescePlan, memory_bytes: int
) -> Iterator[SpilledMoves]:
    """The rows that equal rows of other identities cancel, by reduce range; on local disk until the context ends.

    Args:
        pieces: all rows of some row hashes, in any order.
        rows: number of all these rows, or a few more.
        coalesce_plan: the reduce ranges.
        memory_bytes: memory of the task.

    Raises:
        TransientError: local disk is full or broken.
    """
    bits = min(_MAX_SLICE_BITS, (max(1, -(-rows * _BYTES_PER_ROW // memory_bytes)) - 1).bit_length())
    disk = local_folders(os.environ)[0]
    #   pieces -> slices by row hash: equal rows meet -> what cancels -> files by range, by identity hash
    # Only hashes go through it: 44 bytes on disk for a row of any size.
    with SpilledMoves(disk) as slices, SpilledMoves(disk) as found:
        for piece in pieces:
            # If not all rows fit into memory, many may be copies of one row of one identity, which no slice divides.
            kept = _consolidated(piece) if bits else piece
            slices.add(kept, _first_bits(kept.row_hashes, bits), 1 << bits)
        most_rows = max(_LEAST_ROWS, memory_bytes // _BYTES_PER_ROW)
        for number in range(1 << bits):
            for cancelled in _cancelled(slices, number, most_rows=most_rows, disk=disk):
                found.add(cancelled, coalesce_plan.range_ids(cancelled.identity_hashes), len(coalesce_plan.ranges))
        yield found


def _cancelled(slices: SpilledMoves, number: int, *, most_rows: int, disk: Path | None) -> Iterator[WeightedHashes]:
    """The rows of a slice that cancel, in pieces."""
    rows = slices.rows_of(number)
    if rows <= most_rows:
        left = _consolidated(slices.of(number))
        yield from _changed(lambda: [left])
        return
    # Many identities have equal rows. So the slice is cut by identity, and the parts are read twice.
    bits = min(_MAX_SLICE_BITS, (-(-rows // most_rows) - 1).bit_length())
    with SpilledMoves(disk) as parts:
        for piece in slices.pieces_of(number, most_rows):
            parts.add(piece, _first_bits(piece.identity_hashes, bits), 1 << bits)
        yield from _changed(lambda: (_consolidated(parts.of(part)) for part in range(1 << bits)))


def _changed(pieces: Callable[[], Iterable[WeightedHashes]]) -> Iterator[WeightedHashes]:
    """The rows that cancel, of pieces that are read twice, their identities ascending.

    First, the weight that equal rows have in common; then, from which identities it is taken.
    """
    shared = SharedWeights()
    for rows in pieces():
        shared.add(rows.row_hashes, rows.change_ordinals, rows.weights)
    for rows in pieces():
        positions, changes = shared.cancelled(
            row_hashes=rows.row_hashes,
            identity_hashes=rows.identity_hashes,
            change_ordinals=rows.change_ordinals,
            weights=rows.weights,
        )
        yield replace(rows.take(positions), weights=changes)


def _consolidated(rows: WeightedHashes) -> WeightedHashes:
    keys = combined_hashes(rows.row_hashes, rows.identity_hashes)
    positions, weights = consolidate(keys, rows.change_ordinals, rows.weights)
    return replace(rows.take(positions), weights=weights)


def _first_bits(hashes: RowHashes, bits: int) -> NDArray[np.int32]:
    """The slice of each hash; equal hashes are in the same slice."""
    return (hashes.high >> np.uint64(64 - bits)).astype(np.int32) if bits else np.zeros(len(hashes), np.int32)
