"""Record batches of any size, cut and merged into row groups, and cut into slices."""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_OFFSET_BYTES = 8


def row_bytes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """The bytes of each row, at least 1; equal rows have as many in any batch, unlike shares of ``batch.nbytes``.

    Bits of validity do not count.

    >>> row_bytes(pa.record_batch({"id": [1, 2, 3], "text": ["a", None, "bcd"]})).tolist()
    [17, 16, 19]
    """
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        sizes += _value_bytes(column)
    return np.maximum(sizes, 1)


def _value_bytes(values: pa.Array) -> NDArray[np.int64]:
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return _value_bytes(values.storage)
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.int64)
    if pa.types.is_struct(kind):
        fields = (_value_bytes(field) for field in values.flatten())
        return np.sum([np.zeros(len(values), np.int64), *fields], axis=0)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        # A slice has the elements of all rows, and the offsets of its own.
        offsets = values.offsets.to_numpy().astype(np.int64)
        first, stop = int(offsets[0]), int(offsets[-1])
        sums = np.concatenate(([0], np.cumsum(_value_bytes(values.values.slice(first, stop - first)))))
        sizes = np.diff(sums[offsets - first])
        # A null may have elements that nobody sees.
        return np.where(values.is_valid().to_numpy(zero_copy_only=False), sizes, 0) + _OFFSET_BYTES
    try:
        bits = kind.bit_width
    except ValueError:  # it has none: strings and bytes
        lengths = pc.fill_null(pc.binary_length(values), 0)
        return lengths.cast(pa.int64()).to_numpy() + _OFFSET_BYTES
    return np.full(len(values), -(-bits // 8), np.int64)


GROUP_ROWS: Final = 1 << 18
GROUP_BYTES: Final = 64 << 20


def row_groups(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, max_rows: int = GROUP_ROWS, max_bytes: int = GROUP_BYTES
) -> Iterator[pa.Table]:
    """The rows of all batches in their order, in tables of one row group each; no table is empty.

    The same rows are cut at the same places, whatever the batches in which they come. Every table but the last is as
    large as a bound allows. One group and one batch are held at a time.

    Args:
        schema: of every batch.
        batches: read only as far as the next group needs.
        max_rows: of a group.
        max_bytes: of a group, as `row_bytes` counts. A row that is larger is a group of its own.
    """
    # Batches of 5 rows each, at most 7 rows in a group:   1 1 1 1 1 2 2 | 2 2 2 3 3 3 3 | 3
    pending: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        start, stops = 0, np.cumsum(row_bytes(batch))
        while start < batch.num_rows:
            before = int(stops[start - 1]) if start else 0
            fitting = int(np.searchsorted(stops, before + max_bytes - size_bytes, side="right")) - start
            room = min(max_rows - rows, fitting)
            if room < 1 and pending:
                yield pa.Table.from_batches(pending, schema)
                pending, rows, size_bytes = [], 0, 0
                continue
            # At least one row: a row larger than the bound is a group of its own.
            piece = batch.slice(start, max(1, room))
            pending.append(piece)
            start += piece.num_rows
            rows, size_bytes = rows + piece.num_rows, size_bytes + int(stops[start - 1]) - before
    if pending:
        yield pa.Table.from_batches(pending, schema)


def row_slices(batch: pa.RecordBatch, *, max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in order, in slices that bound what is made of them at a time; none if empty.

    Args:
        batch: the rows.
        max_rows: of a slice.
        max_bytes: of a slice, in Arrow's memory, if the rows are about as large as each other. At least one row.
    """
    rows = max(1, min(max_rows, batch.num_rows * max_bytes // max(batch.nbytes, 1)))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
