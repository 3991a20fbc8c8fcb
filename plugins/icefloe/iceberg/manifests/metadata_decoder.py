"""Avro's binary encoding in metadata files; lengths are checked against the bytes left.

PyIceberg's fast decoder reads past its bytes if a length says so: a malicious manifest ends the process, or puts its
memory into a path. It still reads single numbers, whose end it checks.
"""

from typing import Final

from pyiceberg.avro.decoder import BinaryDecoder, new_decoder
from pyiceberg.types import FixedType, IcebergType, ListType, MapType, StructType

MAX_FIELDS: Final = 10_000
"""The most fields of a schema, each counted as often as its type is used; schemas of manifests have about fifty."""
_PADDING: Final = bytes(4096)
"""Covers numbers that are read at once: after the last byte they are zeros of one byte each."""


class MetadataDecoder(BinaryDecoder):
    """EOFError if a value ends after the last byte, ValueError for a negative length."""

    def __init__(self, content: bytes) -> None:
        decoder = new_decoder(content + _PADDING)
        self._limit = len(content)
        self._read, self._read_ints, self._skip = decoder.read, decoder.read_ints, decoder.skip
        # Bound here, as they are read a hundred times for each entry of a manifest.
        self.tell, self.read_int, self.skip_int = decoder.tell, decoder.read_int, decoder.skip_int  # type: ignore[method-assign]

    def tell(self) -> int:
        """Offset of the next value."""
        raise NotImplementedError

    def read(self, n: int) -> bytes:
        """That many bytes."""
        if not 0 <= n <= self._limit - self.tell():
            raise self._ended(n)
        return self._read(n) if n else b""

    def read_bytes(self) -> bytes:
        """Bytes whose number comes before them."""
        return self.read(self.read_int())

    def read_ints(self, n: int) -> tuple[int, ...]:
        """That many numbers."""
        self._require_elements(n)
        if n >= len(_PADDING):
            return tuple([self.read_int() for _ in range(n)])
        found = self._read_ints(n)
        self.check()
        return found

    def read_int_bytes_dict(self, n: int, dest: dict[int, bytes]) -> None:
        """That many numbers, each with bytes."""
        self._require_elements(n)
        read_int, tell, read, limit = self.read_int, self.tell, self._read, self._limit
        for _ in range(n):
            key, size = read_int(), read_int()
            if not 0 <= size <= limit - tell():
                raise self._ended(size)
            dest[key] = read(size) if size else b""

    def skip(self, n: int) -> None:
        """Passes over that many bytes."""
        if not 0 <= n <= self._limit - self.tell():
            raise self._ended(n)
        if n:
            self._skip(n)

    @property
    def is_at_end(self) -> bool:
        """True if every byte was read."""
        return self.tell() >= self._limit

    def check(self) -> None:
        """Raise EOFError if a value ended after the last byte."""
        if self.tell() > self._limit:
            raise EOFError(f"a value ends after the last of {self._limit} bytes")

    def _require_elements(self, count: int) -> None:
        if count > self._limit - self.tell():
            raise EOFError(f"{count} elements were expected at byte {self.tell()} of {self._limit}")

    def _ended(self, size: int) -> Exception:
        if size < 0:
            return ValueError(f"the value at byte {self.tell()} has a length of {size}")
        return EOFError(f"{size} bytes were expected at byte {self.tell()} of {self._limit}")


def field_count(schema: StructType, known: dict[int, int]) -> int:
    """Number of fields of a type; inner types count as often as they are used.

    Args:
        known: counts from before by `id`: a type that is used twice is one object.
    """
    found = 1 + sum(_values(field.field_type, known) for field in schema.fields)
    if found > MAX_FIELDS:
        raise ValueError(f"its schema has more than {MAX_FIELDS} fields")
    known[id(schema)] = found
    return found


def _values(value_type: IcebergType, known: dict[int, int]) -> int:
    if id(value_type) in known:
        return known[id(value_type)]
    if isinstance(value_type, StructType):
        return field_count(value_type, known)
    if isinstance(value_type, ListType | MapType):
        parts = _parts(value_type)
        found = 1 + sum(_values(part, known) for part, _ in parts)
        if all(is_required and _takes_no_byte(part) for part, is_required in parts):
            raise ValueError(f"its schema has elements that take no byte: {value_type}")
        return found
    return 1


def _parts(value_type: ListType | MapType) -> list[tuple[IcebergType, bool]]:
    """The types in an element, with True if it always has a value of the type."""
    if isinstance(value_type, ListType):
        return [(value_type.element_type, value_type.element_required)]
    return [(value_type.key_type, True), (value_type.value_type, value_type.value_required)]


def _takes_no_byte(value_type: IcebergType) -> bool:
    if isinstance(value_type, StructType):
        return all(field.required and _takes_no_byte(field.field_type) for field in value_type.fields)
    return isinstance(value_type, FixedType) and len(value_type) == 0
