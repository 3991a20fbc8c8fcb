"""Primitive values of Avro's binary encoding, out of one block; never a byte from after its end.

Source: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

from collections.abc import Iterator
from typing import Final

from pyiceberg.avro.decoder import new_decoder

MAX_VALUES: Final = 1 << 16
"""The most values of one row outside of arrays and maps, counted by the schema: padding covers them all."""
_PADDING: Final = bytes(8 * MAX_VALUES)
_MOST_ELEMENTS: Final = 1 << 21
"""The most elements of arrays and maps in one row: each is an object of up to 100 bytes until its batch is done."""
_MOST_UNBACKED: Final = 1 << 20


class Unbacked:
    """Rows and elements of a file that took none of its bytes: nulls, and records without fields.

    Other values are bounded by the bytes that hold them. These are bounded only by a number in the file.
    """

    def __init__(self) -> None:
        self._left = _MOST_UNBACKED

    def take(self, count: int) -> None:
        """Count some; raises as ``require``."""
        self.require(count)
        self._left -= count

    def require(self, count: int) -> None:
        """Raise ValueError if the file may not have so many more."""
        if count > self._left:
            raise ValueError(f"it promises more than {_MOST_UNBACKED} rows or elements that have no bytes")


class AvroDecoder:
    """PyIceberg's decoder, which does not check the end of its bytes, kept within its bytes.

    Padding covers the numbers of a row that begins inside; ``check`` refuses values that ended outside.

    Args:
        content: the bytes.
        unbacked: the counter of the file.
    """

    __slots__ = ("_elements", "_limit", "_read", "_unbacked", "read_boolean", "read_int", "tell")

    def __init__(self, content: bytes, unbacked: Unbacked) -> None:
        decoder = new_decoder(content + _PADDING)
        self._limit = len(content)
        self._unbacked = unbacked
        self._elements = 0
        self._read, self.tell = decoder.read, decoder.tell
        self.read_boolean, self.read_int = decoder.read_boolean, decoder.read_int

    def check(self) -> None:
        """Raise EOFError if a value ended after the last byte."""
        if self.tell() > self._limit:
            raise EOFError(f"a value ends after the last of {self._limit} bytes")

    def rows(self, count: int) -> Iterator[None]:
        """Yield once for each row, which the caller reads and checks; ValueError if the bytes cannot hold so many."""
        self._unbacked.require(count - self._limit)
        for _ in range(count):
            start, self._elements = self.tell(), 0
            yield
            if self.tell() == start:
                self._unbacked.take(1)

    @property
    def elements(self) -> int:
        """Number of elements of arrays and entries of maps in the current row so far."""
        return self._elements

    @property
    def is_at_end(self) -> bool:
        """True if every byte was read."""
        return self.tell() == self._limit

    def read_float(self) -> bytes:
        """The 4 bytes of a float, little-endian."""
        return self._read(4)

    def read_double(self) -> bytes:
        """The 8 bytes of a double, little-endian; PyIceberg 0.12 would turn them into a float."""
        return self._read(8)

    def read_fixed(self, size_bytes: int) -> bytes:
        """That many bytes."""
        self._require(size_bytes)
        return self._read(size_bytes)

    def read_bytes(self) -> bytes:
        """Bytes whose number comes before them."""
        return self.read_fixed(self.read_int())

    def sequence(self) -> Iterator[None]:
        """Yield once for each element of an array or entry of a map, which the caller reads."""
        while count := self.read_int():
            # A negative count means that the size of these elements in bytes follows.
            if count < 0:
                count = -count
                self.read_int()
            self._elements += count
            if self._elements > _MOST_ELEMENTS:
                raise ValueError(f"a row has more than {_MOST_ELEMENTS} elements in arrays and maps")
            start = self.tell()
            # More elements than bytes: the rest of them must be of no bytes, as only damage or malice writes them.
            self._unbacked.require(start + count - self._limit)
            for _ in range(count):
                self.check()
                yield
            if self.tell() - start < count:
                self._unbacked.take(count - (self.tell() - start))

    def _require(self, size_bytes: int) -> None:
        if not 0 <= size_bytes <= self._limit - self.tell():
            raise EOFError(f"{size_bytes} bytes were expected at byte {self.tell()} of {self._limit}")
