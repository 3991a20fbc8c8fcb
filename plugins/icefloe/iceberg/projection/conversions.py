"""Conversions of a file's arrays into the table's: small steps, planned once and applied to every batch."""

from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from icefloe.iceberg.projection.null_arrays import null_array


class Conversion(Protocol):
    """Turns an array into another of the same length; knows nothing of files."""

    def apply(self, array: pa.Array) -> pa.Array:
        """The array that the next step, or the table, expects."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The array is right as it is."""

    def apply(self, array: pa.Array) -> pa.Array:
        """The same array, not copied."""
        return array


KEEP: Final = Keep()


@dataclass(frozen=True, slots=True)
class View:
    """The same bytes under another type: zones of timestamps, wider decimals, uuids."""

    target: pa.DataType

    def apply(self, array: pa.Array) -> pa.Array:
        """The array's buffers as another type, not copied."""
        return array.view(self.target)


@dataclass(frozen=True, slots=True)
class Cast:
    """Converted values; ``safe`` raises ``pa.ArrowInvalid`` if a value would change."""

    target: pa.DataType
    safe: bool = True

    def apply(self, array: pa.Array) -> pa.Array:
        """A new array of the target type."""
        return array.cast(self.target, safe=self.safe)


@dataclass(frozen=True, slots=True)
class Unwrap:
    """The storage of an extension type."""

    def apply(self, array: pa.Array) -> pa.Array:
        """The storage, not copied."""
        return array.storage


@dataclass(frozen=True, slots=True)
class Decode:
    """Plain values of a dictionary-encoded array."""

    def apply(self, array: pa.Array) -> pa.Array:
        """A new array without a dictionary."""
        return array.dictionary_decode()


@dataclass(frozen=True, slots=True)
class KeepDictionary:
    """A dictionary-encoded array that stays one; its distinct values get the table's type."""

    values: Conversion
    index_type: pa.DataType

    def apply(self, array: pa.Array) -> pa.Array:
        """The same indices over converted values."""
        if isinstance(self.values, Keep):
            return array
        return pa.DictionaryArray.from_arrays(array.indices, self.values.apply(array.dictionary))


@dataclass(frozen=True, slots=True)
class Nulls:
    """All null: the column had no type yet when the file was written."""

    target: pa.DataType

    def apply(self, array: pa.Array) -> pa.Array:
        """As many nulls as the array has rows."""
        return null_array(self.target, len(array))


@dataclass(frozen=True, slots=True)
class Chain:
    """Two steps, one after the other."""

    first: Conversion
    second: Conversion

    def apply(self, array: pa.Array) -> pa.Array:
        """The result of the second step, applied to the result of the first."""
        return self.second.apply(self.first.apply(array))
