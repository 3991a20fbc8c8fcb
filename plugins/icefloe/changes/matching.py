"""Matching: which rows of two files may be equal, whatever their order, found by digests of a few columns.

A digest never says that rows are equal. It proposes pairs, and whoever asks compares each pair in all columns. Rows
that were not proposed, or are not equal, are left to be hashed and consolidated: a bad digest only costs time.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.changes.consolidate import first_of
from icefloe.changes.row_hash.canonical import fixed_width_words, is_fixed_width
from icefloe.changes.row_hash.mixing import GAMMA, K1
from icefloe.changes.row_hash.row_hashes import row_hashes

__all__ = ["MOST_MATCHED_ROWS", "Digests", "digests_of", "likely_pairs", "telling_columns"]

Positions = NDArray[np.int64]
Digests = NDArray[np.uint64]
"""A word per row that is equal if the rows are equal in some columns, and hardly ever if they are not."""

_TELLING_SHARE: Final = 0.999
"""Columns whose digests differ in such a share of a sample tell nearly all rows apart."""
_USELESS_SHARE: Final = 0.5
MOST_MATCHED_ROWS: Final = 1 << 26
"""A digest and a position share a word: with more rows, digests would be too short to tell rows apart."""
_GAMMA, _K1, _S32 = np.uint64(GAMMA), np.uint64(K1), np.uint64(32)
_NULL: Final = np.uint64(0xD1B54A32D192ED03)


def telling_columns(rows: pa.RecordBatch) -> list[int]:
    """Columns that tell nearly all rows apart, and one more; numbers are preferred, as they are cheap.

    Args:
        rows: some thousand rows of a file.

    Returns:
        The places of the columns, the most telling one first; none if even all columns hardly tell rows apart.

    >>> telling_columns(pa.record_batch({"a": [1, 1, 1, 2], "b": [4, 5, 6, 7], "c": list("wxyz")}))
    [1, 0]
    """
    digests = {place: digests_of([column]) for place, column in enumerate(rows.columns)}
    numbers = [place for place, column in enumerate(rows.columns) if _is_cheap(column.type)]
    texts = [place for place in digests if place not in numbers]
    chosen: list[int] = []
    seen = np.zeros(rows.num_rows, np.uint64)
    for candidates in (numbers, texts):
        for place in sorted(candidates, key=lambda place: -_distinct(digests[place])):
            is_telling = _distinct(seen) >= _TELLING_SHARE * len(seen)
            # One more column than the sample asks for: it cannot show values that repeat once in a million rows.
            if is_telling and (len(chosen) > 1 or candidates is texts):
                return chosen
            chosen.append(place)
            seen = _mixed(seen, digests[place])
    return chosen if _distinct(seen) > _USELESS_SHARE * len(seen) else []


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
        return row_hashes([array]).low
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


def likely_pairs(removed: Digests, added: Digests) -> NDArray[np.int32]:
    """For each added row the position of a removed row with the same digest, -1 if there is none left.

    A removed row is the partner of one added row at most. Needs about 40 bytes per row.

    >>> likely_pairs(*(np.array(words, np.uint64) << np.uint64(32) for words in ([7, 8, 8, 9], [8, 9, 5, 9])))
    array([ 1,  3, -1, -1], dtype=int32)
    """
    # Numbers are sorted several times faster than positions by number, so a word holds both:
    #     digest (upper bits) | place (lower bits), removed rows before added rows
    rows = len(removed) + len(added)
    bits = np.uint64(rows.bit_length())
    keys = np.concatenate((removed, added))
    keys >>= bits
    keys <<= bits
    keys |= np.arange(rows, dtype=np.uint64)
    keys.sort()
    one, other = _neighbours(keys, bits, len(removed))
    partners = np.full(len(added), -1, np.int32)
    partners[other - len(removed)] = one
    return partners


def _neighbours(keys: Digests, bits: np.uint64, num_removed: int) -> tuple[Positions, Positions]:
    """Places of removed and added rows with equal digests, one for one, by sorted keys."""
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
