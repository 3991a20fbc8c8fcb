"""Primitive values of Avro's binary encoding, out of one block; never a byte from behind its end.

Source: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

from collections.abc import Iterator
from typing import Final

from pyiceberg.avro.decoder import new_decoder

__all__ = ["AvroDecoder"]

_PADDING: Final = bytes(1 << 16)


class AvroDecoder:
    """PyIceberg's decoder, which does not look where its bytes end, held to its bytes.

    Padding covers the numbers of a row that begins inside; ``check`` refuses what ended outside.
    """

    __slots__ = ("_limit", "_read", "read_boolean", "read_int", "tell")

    def __init__(self, content: bytes) -> None:
        decoder = new_decoder(content + _PADDING)
        self._limit = len(content)
        self._read, self.tell = decoder.read, decoder.tell
        self.read_boolean, self.read_int = decoder.read_boolean, decoder.read_int

    def check(self) -> None:
        """Raises EOFError where a value ended behind the last byte."""
        if self.tell() > self._limit:
            raise EOFError(f"a value ends behind the last of {self._limit} bytes")

    @property
    def is_at_end(self) -> bool:
        """Whether every byte was read."""
        return self.tell() == self._limit

    def read_float(self) -> bytes:
        """The 4 bytes of a float, little-endian."""
        return self._read(4)

    def read_double(self) -> bytes:
        """The 8 bytes of a double, little-endian; PyIceberg 0.12 would make a float of them."""
        return self._read(8)

    def read_fixed(self, size_bytes: int) -> bytes:
        """That many bytes."""
        self._require(size_bytes)
        return self._read(size_bytes)

    def read_bytes(self) -> bytes:
        """As many bytes as the number before them says."""
        return self.read_fixed(self.read_int())

    def sequence(self) -> Iterator[None]:
        """Once for each element of an array or entry of a map, which the caller reads."""
        while count := self.read_int():
            if count < 0:
                self.read_int()
            for _ in range(abs(count)):
                self.check()
                yield

    def _require(self, size_bytes: int) -> None:
        if not 0 <= size_bytes <= self._limit - self.tell():
            raise EOFError(f"{size_bytes} bytes were expected at byte {self.tell()} of {self._limit}")
