"""The row hash in plain Python, from docs/developers/formats.md; shares no code with the library."""

import hashlib
import math
import struct
from fractions import Fraction

import pyarrow as pa

W = 2**64
PER_UNIT = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}
PIECE = 1024


def drawn(seed, i):
    """Word i of what is drawn from a seed."""
    return int.from_bytes(hashlib.shake_128(seed).digest(8 * i + 8)[-8:], "little")


def child(seed, k):
    return seed + k.to_bytes(4, "big")


def null_of(seed):
    return drawn(seed, 10), drawn(seed, 11)


def mix(words, factors):
    u, v = words
    a, b = factors[:4], factors[4:]
    y = u * a[0] + (u >> 32) * a[1] + v * a[2] + (v >> 32) * a[3]
    z = u * b[0] + (u >> 16) * b[1] + (u >> 48) * b[2] + v * b[3] + (v >> 16) * b[4] + (v >> 48) * b[5]
    return y % W, z % W


def added(pairs):
    pairs = list(pairs)
    return sum(y for y, _ in pairs) % W, sum(z for _, z in pairs) % W


def contribution(kind, value, seed):
    if isinstance(kind, pa.BaseExtensionType):
        return contribution(kind.storage_type, value, seed)
    if pa.types.is_dictionary(kind):
        return contribution(kind.value_type, value, seed)
    if value is None:
        return null_of(seed)
    return mix(value_words(kind, value, seed), [drawn(seed, i) for i in range(10)])


def value_words(kind, value, seed):
    """The words of a value; times and dates are given as the number that Arrow stores."""
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_date32(kind):
        return int(value) % W, 0
    if pa.types.is_date64(kind):
        return value // 86_400_000 % W, 0
    if pa.types.is_temporal(kind):
        return value * PER_UNIT[kind.unit] % W, 0
    if pa.types.is_floating(kind):
        if math.isnan(value):
            return 0x7FF8000000000000, 0
        return (0 if value == 0 else struct.unpack("<Q", struct.pack("<d", value))[0]), 0
    if pa.types.is_decimal(kind):
        unscaled = int(Fraction(value) * 10**kind.scale)
        u, v = unscaled % W, (unscaled >> 64) % W
        return u, v ^ (W - 1) * (u >> 63)
    if isinstance(value, str | bytes):
        content = value.encode() if isinstance(value, str) else value
        return byte_words(content if pa.types.is_fixed_size_binary(kind) else content + b"\1", seed)
    if pa.types.is_struct(kind):
        return added(
            contribution(kind.field(i).type, value[kind.field(i).name], child(seed, i)) for i in range(kind.num_fields)
        )
    if pa.types.is_map(kind):
        return map_words(kind, value, seed)
    return list_words(kind.value_type, value, seed)


def byte_words(content, seed):
    words = [int.from_bytes(content[i : i + 8], "little") for i in range(0, len(content), 8)] or [0]
    u, v = sequence([(word, 0) for word in words[1:]], child(seed, 0))
    return (words[0] + u) % W, v


def sequence(elements, seed):
    if len(elements) > PIECE:
        pieces = [sequence(elements[i : i + PIECE], seed) for i in range(0, len(elements), PIECE)]
        return sequence(pieces, child(seed, 0))
    words = hashlib.shake_128(child(seed, 2**32 - 1)).digest(80 * len(elements))
    factors = struct.unpack(f"<{10 * len(elements)}Q", words)
    return added(mix(words, factors[10 * i : 10 * i + 10]) for i, words in enumerate(elements))


def list_words(kind, value, seed):
    u, v = sequence([contribution(kind, element, child(seed, 0)) for element in value], child(seed, 1))
    return u, (v + len(value)) % W


def map_words(kind, value, seed):
    entries = []
    for key, item in value:
        of_key = contribution(kind.key_type, key, child(seed, 0))
        of_item = contribution(kind.item_type, item, child(seed, 1))
        entries.append(scrambled(*added([null_of(child(seed, 2)), of_key, of_item])))
    u, v = added(entries)
    return u, (v + len(value)) % W


def round_of(a, b, x):
    x = (x ^ (x >> 32)) * a % W
    x = (x ^ (x >> 29)) * b % W
    return x ^ (x >> 32)


def scrambled(p, q):
    p = (p + round_of(0xD6E8FEB86659FD93, 0xC4CEB9FE1A85EC53, q)) % W
    q = (q + round_of(0xFF51AFD7ED558CCD, 0xE7037ED1A0B428DB, p)) % W
    p = (p + round_of(0xA0761D6478BD642F, 0x8EBC6AF09C88C6E3, q)) % W
    return p, q


def row_hash(kinds, row, key):
    """The hash of one row: a value per column."""
    root = key.to_bytes(16, "big")
    columns = [
        contribution(kind, value, child(root, c)) for c, (kind, value) in enumerate(zip(kinds, row, strict=True))
    ]
    p, q = scrambled(*added([null_of(root), *columns]))
    return q * W + p
