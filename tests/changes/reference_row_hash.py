"""The row hash in plain Python, from docs/formats.md, section "Row hash"; shares no code with the library."""

import math
import struct
from fractions import Fraction

import pyarrow as pa

W = 2**64
G = 0x9E3779B97F4A7C15
K1 = 0xBF58476D1CE4E5B9
K2 = 0x94D049BB133111EB
NULL = (0xD1B54A32D192ED03, 0x9E3779B97F4A7C15)
PER_UNIT = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}


def scrambled(x):
    x %= W
    x = (x ^ (x >> 30)) * K1 % W
    x = (x ^ (x >> 27)) * K2 % W
    return x ^ (x >> 31)


def child(s, k):
    return scrambled(s + (16 + k) * G)


def mix(s, words):
    u, v = words
    x = (u + scrambled(s + G)) % W
    x = (x ^ (x >> 32)) * (scrambled(s + 2 * G) | 1) % W
    x = (x ^ (x >> 29)) * K1 % W
    y = x ^ (x >> 32)
    x = (y + v) * (scrambled(s + 3 * G) | 1) % W
    x = (x ^ (x >> 32)) * K2 % W
    return y, x ^ (x >> 29)


def added(pairs):
    pairs = list(pairs)
    return sum(y for y, _ in pairs) % W, sum(z for _, z in pairs) % W


def value_words(kind, value, s):
    """The words of a value; times and dates are given as the number that Arrow stores."""
    if isinstance(kind, pa.ExtensionType):
        return value_words(kind.storage_type, value, s)
    if pa.types.is_dictionary(kind):
        return value_words(kind.value_type, value, s)
    if value is None:
        return NULL
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
        return unscaled % W, (unscaled >> 64) % W
    if isinstance(value, str | bytes):
        return byte_words(value.encode() if isinstance(value, str) else value, s)
    if pa.types.is_struct(kind):
        return added(
            mix(child(s, i), value_words(kind.field(i).type, value[kind.field(i).name], child(s, i)))
            for i in range(kind.num_fields)
        )
    if pa.types.is_map(kind):
        return map_words(kind, value, s)
    return list_words(kind.value_type, value, s)


def byte_words(content, s):
    n = len(content)
    elements = []
    for i in range(len(content[8:]) // 8 + 1):
        word = content[8 + 8 * i : 16 + 8 * i]
        if word:
            elements.append(mix(child(s, 0), ((int.from_bytes(word, "little") + i * K1) % W, i * K2 % W)))
    u, v = added(elements)
    return (int.from_bytes(content[:8], "little") + n * K1 + u) % W, (n + v) % W


def list_words(kind, value, s):
    elements = []
    for i, element in enumerate(value):
        y, z = mix(child(s, 0), value_words(kind, element, child(s, 0)))
        elements.append(mix(child(s, 1), ((y + i * K1) % W, (z + i * K2) % W)))
    u, v = added(elements)
    return (len(value) * K1 + u) % W, (len(value) + v) % W


def map_words(kind, value, s):
    entries = []
    for key, item in value:
        entry = added(
            [
                mix(child(s, 0), value_words(kind.key_type, key, child(s, 0))),
                mix(child(s, 1), value_words(kind.item_type, item, child(s, 1))),
            ]
        )
        entries.append(mix(child(s, 2), entry))
    u, v = added(entries)
    return (len(value) * K1 + u) % W, (len(value) + v) % W


def round_of(a, b, x):
    x = (x ^ (x >> 32)) * a % W
    x = (x ^ (x >> 29)) * b % W
    return x ^ (x >> 32)


def row_hash(kinds, row):
    """The hash of one row: a value per column."""
    seeds = [scrambled((c + 1) * G) for c in range(len(kinds))]
    p, q = added(mix(s, value_words(kind, value, s)) for s, kind, value in zip(seeds, kinds, row, strict=True))
    p = (p + round_of(0xD6E8FEB86659FD93, 0xC4CEB9FE1A85EC53, q)) % W
    q = (q + round_of(0xFF51AFD7ED558CCD, 0xE7037ED1A0B428DB, p)) % W
    p = (p + round_of(0xA0761D6478BD642F, 0x8EBC6AF09C88C6E3, q)) % W
    return q * W + p
