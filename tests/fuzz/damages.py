"""Damages to valid bytes, as a bad disk does them by chance and a hostile writer on purpose."""

from typing import Final

from hypothesis import strategies as st

__all__ = ["damaged"]

_LIES: Final = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 1 << 40, (1 << 63) - 1, 1 << 63)
"""Numbers at which lengths, counts and offsets break."""


@st.composite
def damaged(draw: st.DrawFn, valid: bytes) -> bytes:
    """The bytes with one to four damages."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        if not data:
            break
        place = draw(st.integers(0, len(data) - 1))
        match draw(st.sampled_from(["flip", "cut", "lie", "splice", "repeat", "varint", "insert", "join"])):
            case "flip":
                data[place] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[place:]
            case "lie":
                width = draw(st.sampled_from([1, 2, 4, 8]))
                number = draw(st.sampled_from(_LIES)) % (1 << 8 * width)
                data[place : place + width] = number.to_bytes(width, draw(st.sampled_from(["little", "big"])))
            case "splice":
                source = draw(st.integers(0, len(data) - 1))
                size = draw(st.integers(1, 32))
                data[place : place + size] = data[source : source + size]
            case "repeat":
                data[place:place] = bytes(data[place : place + draw(st.integers(1, 64))]) * draw(st.integers(1, 8))
            case "varint":
                # Avro and Thrift write numbers so: seven bits a byte, low ones first.
                data[place : place + 1] = _varint(draw(st.sampled_from(_LIES)))
            case "insert":
                data[place:place] = draw(st.binary(min_size=1, max_size=16))
            case "join":
                del data[place : place + draw(st.integers(1, 32))]
    return bytes(data)


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])
