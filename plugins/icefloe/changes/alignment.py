"""Alignment: equal rows at equal positions of two files, found without a hash.

Writers keep the row order when they update some rows of a file, so nearly all rows cancel in place.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes

__all__ = ["aligned_batches", "differing_rows"]

_COMPARABLE: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_temporal,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)


def aligned_batches(
    removed: Iterable[pa.RecordBatch], added: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Slices of two files, of equal length at equal positions, until one of them ends."""
    removed_batches, added_batches = iter(removed), iter(added)
    one: pa.RecordBatch | None = None
    other: pa.RecordBatch | None = None
    # Readers cut files into batches where it suits them, so the two sides are cut at different rows:
    #   removed    aaaa|bbbbbb         added      cc|ddddddd|e
    #   side by side:  aa,cc  aa,dd  bbbbb,ddddd  b,e
    while True:
        one = one if one is not None and one.num_rows else next(removed_batches, None)
        other = other if other is not None and other.num_rows else next(added_batches, None)
        if one is None or other is None:
            return
        rows = min(one.num_rows, other.num_rows)
        if rows:
            yield one.slice(0, rows), other.slice(0, rows)
        one, other = one.slice(rows), other.slice(rows)


def differing_rows(removed: pa.RecordBatch, added: pa.RecordBatch) -> NDArray[np.int64]:
    """The positions, ascending, at which two batches of one schema and length differ.

    Different values never count as equal. Equal values by the change model but not by Arrow (NaNs) may count as
    different, so differing rows must still be consolidated.

    >>> one, other = (pa.record_batch({"a": [1, 2, None], "b": list(text)}) for text in ("xyz", "xqz"))
    >>> differing_rows(one, other).tolist()
    [1]
    """
    differs = np.zeros(removed.num_rows, np.bool_)
    for one, other in zip(removed.columns, added.columns, strict=True):
        different = _differing_values(one, other)
        if different is not None:
            differs |= different
    return np.flatnonzero(differs)


def _differing_values(one: pa.Array, other: pa.Array) -> NDArray[np.bool_] | None:
    """As in `differing_rows`; None: nowhere."""
    if pa.types.is_dictionary(one.type) or pa.types.is_dictionary(other.type):
        one, other = _comparable_codes(one, other)
    if one.equals(other):
        return None
    if isinstance(one, pa.ExtensionArray):
        one, other = one.storage, other.storage
    # Arrow has no kernel that compares nested values element by element. Their hashes have all 128 bits of the row
    # hash, by which rows are equal anyway.
    if not any(is_type(one.type) for is_type in _COMPARABLE):
        key = RowHashes.new_key()
        hashes, others = row_hashes([one], key=key), row_hashes([other], key=key)
        return (hashes.low != others.low) | (hashes.high != others.high)
    # not_equal is null as soon as one side is null, which is a difference only if the other side is not:
    #   removed     1      null   null
    #   added       1      null   2
    #   not_equal   false  null   null
    #   differs     false  false  true
    unequal = pc.fill_null(pc.not_equal(one, other), False).to_numpy(zero_copy_only=False)
    if one.null_count or other.null_count:
        unequal = unequal | pc.xor(one.is_null(), other.is_null()).to_numpy(zero_copy_only=False)
    return unequal


def _comparable_codes(one: pa.Array, other: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Codes of two dictionary columns in one dictionary, otherwise values."""
    # A dictionary may hold a value twice, so other codes need not be other values. That is the harmless direction: the
    # rows are hashed and cancel there.
    if pa.types.is_dictionary(one.type) and pa.types.is_dictionary(other.type):
        if one.dictionary.equals(other.dictionary):
            return one.indices, other.indices
        if len(other.dictionary) <= len(other):
            # Each distinct value is looked up once. A value that the first dictionary lacks gets a code that no row of
            # the first column has; a null stays null.
            places = pc.fill_null(pc.index_in(other.dictionary, value_set=one.dictionary), -1)
            return one.indices.cast(pa.int32()), places.take(other.indices)
    return tuple(each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in (one, other))
