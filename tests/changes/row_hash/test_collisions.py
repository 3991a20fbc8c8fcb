"""Nobody who does not know the key can choose two rows whose hashes are equal."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from changes.row_hash.forged_rows import FORGED, NUMBERS, PLAIN
from icefloe.changes.row_hash.row_hashes import RowHashes

KEYS = 300
TOP = [1 << 31, 1 << 47, 1 << 63, (1 << 31) + (1 << 63), (1 << 15) + (1 << 47), 1, 2**64 - 1]
WIDE = pa.decimal128(38, 0)
TEXT = "abcdefgh" * 6
LONG = [*range(1024), 7, 8]


def signed(number: int) -> int:
    return (number % 2**64 + 2**63) % 2**64 - 2**63


def moved(text: str, here: int, there: int) -> str:
    """The text with two of its words of eight bytes exchanged."""
    words = [text[start : start + 8] for start in range(0, len(text), 8)]
    words[here], words[there] = words[there], words[here]
    return "".join(words)


def raised(content: bytes, place: int, by: int) -> bytes:
    """The bytes with a number added to the word at a place."""
    word = int.from_bytes(content[8 * place : 8 * place + 8], "little") + by
    return content[: 8 * place] + (word % 2**64).to_bytes(8, "little") + content[8 * place + 8 :]


MIXED = "".join(f"word {place:02}!" for place in range(6))
PAIRS: dict[str, tuple[Sequence[pa.DataType], Sequence[Any], Sequence[Any]]] = {
    **{f"a number and {step:x} more": ([pa.int64()], [5], [signed(5 + step)]) for step in TOP},
    **{
        f"two numbers that differ by {step:x} and the opposite": (
            [pa.int64(), pa.int64()],
            [5, 5],
            [signed(5 + step), signed(5 - step)],
        )
        for step in TOP
    },
    "columns exchanged": ([pa.int64(), pa.int64()], [1, 2], [2, 1]),
    "null and zero": ([pa.int64(), pa.int64()], [None, 0], [0, None]),
    "the halves of a decimal": ([WIDE], [2**64 + 5], [5 * 2**64 + 1]),
    "a decimal and its top bit": ([WIDE], [1], [1 + 2**125]),
    "two decimals": ([WIDE, WIDE], [2**95, 0], [0, 2**95]),
    "words exchanged": ([pa.string()], [MIXED], [moved(MIXED, 1, 2)]),
    "the first word exchanged": ([pa.string()], [MIXED], [moved(MIXED, 0, 5)]),
    **{
        f"words that differ by {step:x} and the opposite": (
            [pa.binary()],
            [TEXT.encode()],
            [raised(raised(TEXT.encode(), 2, step), 4, -step)],
        )
        for step in TOP
    },
    "the same difference in two words": (
        [pa.binary()],
        [TEXT.encode()],
        [raised(raised(TEXT.encode(), 1, 1 << 63), 3, 1 << 63)],
    ),
    "one zero byte more": ([pa.binary()], [b"a" * 8], [b"a" * 8 + b"\0"]),
    "eight zero bytes more": ([pa.binary()], [b"a" * 16], [b"a" * 16 + b"\0" * 8]),
    "a byte of one more": ([pa.binary()], [b"a" * 7], [b"a" * 7 + b"\1"]),
    "nothing and a zero byte": ([pa.binary()], [b""], [b"\0"]),
    "an end moved from one text to the next": ([pa.string(), pa.string()], ["ab", "c"], ["a", "bc"]),
    "elements exchanged": ([pa.list_(pa.int64())], [[1, 2, 3]], [[1, 3, 2]]),
    "one zero element more": ([pa.list_(pa.int64())], [[1]], [[1, 0]]),
    "an element moved to another piece": ([pa.list_(pa.int64())], [LONG], [[*LONG[1:], LONG[0]]]),
    "pieces exchanged": ([pa.list_(pa.int64())], [LONG * 2], [[*LONG[2:], *LONG[:2], *LONG]]),
    "values exchanged between keys": (
        [pa.map_(pa.string(), pa.int64())],
        [[("a", 1), ("b", 2)]],
        [[("a", 2), ("b", 1)]],
    ),
    "values that differ by equal amounts": (
        [pa.map_(pa.string(), pa.int64())],
        [[("a", 5), ("b", 5)]],
        [[("a", signed(5 + (1 << 63))), ("b", signed(5 - (1 << 63)))]],
    ),
    "fields exchanged": (
        [pa.struct([("a", pa.int64()), ("b", pa.int64())])],
        [{"a": 1, "b": 2}],
        [{"a": 2, "b": 1}],
    ),
    "rows that collide under the public key": ([pa.int64()] * len(NUMBERS[0]), NUMBERS[0], NUMBERS[1]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_no_pair_of_rows_collides_in_either_half_under_any_of_many_keys(name: str) -> None:
    kinds, one, other = PAIRS[name]
    columns = [pa.array(list(values), kind) for kind, values in zip(kinds, zip(one, other, strict=True), strict=True)]
    seen = set()
    for key in range(1, KEYS + 1):
        hashes = RowHashes.of(columns, key=key << 64 | key)
        assert hashes.low[0] != hashes.low[1], key
        assert hashes.high[0] != hashes.high[1], key
        seen.add((hashes[0] - hashes[1]) % 2**128)
    assert len(seen) == KEYS, "a difference that more than one key gives can be made up for elsewhere"


def test_rows_can_be_forged_for_a_key_that_is_known() -> None:
    """The forgery is real: what protects from it is the key alone."""
    ids = pa.array([1, 1])
    texts = [ids, pa.array([0.5, 0.5]), pa.array([PLAIN, FORGED])]
    numbers = [pa.array(values) for values in zip(*NUMBERS, strict=True)]
    for columns in (texts, numbers):
        public, keyed = RowHashes.of(columns, key=RowHashes.PUBLIC_KEY), RowHashes.of(columns, key=1)
        assert public[0] == public[1]
        assert keyed.low[0] != keyed.low[1]
        assert keyed.high[0] != keyed.high[1]
    assert np.all([letter.isprintable() for letter in FORGED])
