"""Equal rows of two files found without a hash of all columns: at equal positions, or by digests of a few columns.

Writers keep the row order when they update some rows of a file, so nearly all rows cancel in place. A digest never says
that rows are equal: callers compare each proposed pair in all columns. The other rows are hashed and consolidated, so a
bad digest only costs time.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.changes.consolidate import first_of
from icefloe.changes.row_hash.column_hash import fixed_width_words, is_fixed_width
from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["aligned_batches", "differing_rows", "digests_of", "pairs_in_order", "telling_columns"]

Positions = NDArray[np.int64]
Digests = NDArray[np.uint64]
"""A word per row that is equal if the rows are equal in some columns, and hardly ever if they are not."""

_TELLING_SHARE: Final = 0.999
"""Columns whose digests differ in such a share of a sample tell nearly all rows apart."""
_USELESS_SHARE: Final = 0.5
_MOST_CANDIDATES: Final = 16
"""Columns of a kind that are looked at; to look at hundreds would cost more than to hash the rows."""
_MOST_ROUNDS: Final = 8
"""If crossing pairs are left after so many rounds, the rows have another order."""
_GAMMA, _K1, _S32 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(32)
_NULL: Final = np.uint64(0xD1B54A32D192ED03)


def telling_columns(rows: pa.RecordBatch) -> list[int]:
    """Places of columns that distinguish nearly all rows, and one more, best first; numbers are cheap.

    None if even many columns hardly distinguish rows, or most columns are needed: hashing them all is cheaper then.

    >>> telling_columns(pa.record_batch({"a": [1, 1, 1, 2], "b": [4, 5, 6, 7], "c": list("wxyz"), "d": [1, 1, 1, 1]}))
    [1, 0]
    """
    numbers = [place for place, column in enumerate(rows.columns) if _is_cheap(column.type)]
    texts = [place for place, column in enumerate(rows.columns) if not _is_cheap(column.type)]
    chosen: list[int] = []
    seen = np.zeros(rows.num_rows, np.uint64)
    for candidates in (numbers[:_MOST_CANDIDATES], texts[:_MOST_CANDIDATES]):
        if chosen and _tells(seen):
            break
        digests = {place: digests_of([rows.column(place)]) for place in candidates}
        for place in sorted(candidates, key=lambda place: -_distinct(digests[place])):
            # One more column than the sample asks for: it cannot show values that repeat once in a million rows.
            if _tells(seen) and (len(chosen) > 1 or place in texts):
                break
            chosen.append(place)
            seen = _mixed(seen, digests[place])
    if 2 * len(chosen) > max(rows.num_columns, 2) or _distinct(seen) <= _USELESS_SHARE * len(seen):
        return []
    return chosen


def _tells(digests: Digests) -> bool:
    return _distinct(digests) >= _TELLING_SHARE * len(digests)


def _is_cheap(kind: pa.DataType) -> bool:
    return is_fixed_width(kind) and not pa.types.is_decimal256(kind)


def _distinct(digests: Digests) -> int:
    return len(np.unique(digests))


def digests_of(columns: Sequence[pa.Array]) -> Digests:
    """The digests of rows over some columns, at least one."""
    digests = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        digests = _mixed(digests, _words(column))
    return digests


def _words(array: pa.Array) -> Digests:
    if not _is_cheap(array.type):
        return RowHashes.of([array], key=RowHashes.PUBLIC_KEY).low
    with np.errstate(invalid="ignore"):  # a NaN may be a signalling one
        words = fixed_width_words(array)
    if words.nulls is None:
        return words.low
    return np.where(words.nulls, _NULL, words.low)


def _mixed(digests: Digests, words: Digests) -> Digests:
    # Doubles of few digits differ in their upper bits only, which a product would push out: they are folded first.
    mixed = digests + words
    mixed ^= mixed >> _S32
    mixed *= _GAMMA
    mixed ^= mixed >> _S32
    mixed *= _K1
    return mixed


def pairs_in_order(removed: Digests, added: Digests) -> tuple[Positions, Positions]:
    """Positions of removed rows, and of added rows with the same digests, both ascending.

    Each row is in one pair at most; pairs that cross others are dropped. Needs about 60 bytes per row, and fewer than
    2^26 rows: a digest and a position share a word.

    >>> shifted = (np.array(words, np.uint64) << np.uint64(32) for words in ([7, 8, 8, 9], [5, 7, 8, 6, 9]))
    >>> [positions.tolist() for positions in pairs_in_order(*shifted)]
    [[0, 1, 3], [1, 2, 4]]
    """
    # Numbers are sorted several times faster than positions by number, so a word holds both:
    #     digest (upper bits) | place (lower bits), removed rows before added rows
    bits = np.uint64((len(removed) + len(added)).bit_length())
    keys = np.concatenate((removed, added))
    keys >>= bits
    keys <<= bits
    keys |= np.arange(len(keys), dtype=np.uint64)
    keys.sort()
    one, other = _neighbours(keys, bits, len(removed))
    partners = np.full(len(added), -1, np.int64)
    partners[other - len(removed)] = one
    other = np.flatnonzero(partners >= 0)
    one = partners[other]
    for _ in range(_MOST_ROUNDS):
        crosses = one[1:] <= one[:-1]
        if not crosses.any():
            return one, other
        # Either row of two that cross may be the one that moved.
        is_kept = np.ones(len(one), np.bool_)
        is_kept[1:] &= ~crosses
        is_kept[:-1] &= ~crosses
        one, other = one[is_kept], other[is_kept]
    return one[:0], other[:0]


def _neighbours(keys: Digests, bits: np.uint64, num_removed: int) -> tuple[Positions, Positions]:
    """Places of rows with equal digests, one for one, by sorted keys."""
    place = (np.uint64(1) << bits) - np.uint64(1)
    is_same = (keys[1:] ^ keys[:-1]) <= place
    lower = np.flatnonzero(is_same)
    one, other = ((keys[places] & place).view(np.int64) for places in (lower, lower + 1))
    is_pair = (one < num_removed) & (other >= num_removed)
    if is_pair.all():
        return one, other
    # Some digest is there more than twice. A group holds its removed rows first: r r a a a makes two pairs.
    places = (keys & place).view(np.int64)
    starts = np.flatnonzero(np.concatenate(([True], ~is_same)))
    of_added = np.add.reduceat(places >= num_removed, starts, dtype=np.int64)
    of_removed = np.diff(starts, append=len(keys)) - of_added
    both = np.minimum(of_removed, of_added)
    return places[first_of(starts, both)], places[first_of(starts + of_removed, both)]


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
        hashes, others = RowHashes.of([one], key=key), RowHashes.of([other], key=key)
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
