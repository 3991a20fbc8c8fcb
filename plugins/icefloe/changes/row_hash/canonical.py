"""Canonical words of fixed-width values, equal for equal values of any Arrow type."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from icefloe.changes.row_hash.mixing import Words
from icefloe.errors import TerminalError

__all__ = ["fixed_width_words", "is_fixed_width"]

_NAN: Final = np.uint64(0x7FF8_0000_0000_0000)
_DAY_MS: Final = 86_400_000
_MICROSECONDS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
"""Factor to the hashed unit: microseconds, and nanoseconds for types of nanoseconds."""


def is_fixed_width(data_type: pa.DataType) -> bool:
    """True if ``fixed_width_words`` knows the type."""
    return data_type.id in _WORDS


def fixed_width_words(array: pa.Array) -> Words:
    """The words of fixed-width values; decimals have up to 38 digits."""
    low, high = _WORDS[array.type.id](array)
    return Words(low=low, high=high, nulls=null_mask(array))


def null_mask(array: pa.Array) -> NDArray[np.bool_] | None:
    if array.null_count == 0:
        return None
    return _bits(array, 0) == 0


_TwoWords = tuple[NDArray[np.uint64], NDArray[np.uint64] | None]


def _integers(dtype: DTypeLike) -> Callable[[pa.Array], _TwoWords]:
    def words(array: pa.Array) -> _TwoWords:
        return _values(array, dtype).astype(np.int64, copy=False).view(np.uint64), None

    return words


def _booleans(array: pa.Array) -> _TwoWords:
    return _bits(array, 1).astype(np.uint64), None


def _floats(dtype: DTypeLike) -> Callable[[pa.Array], _TwoWords]:
    def words(array: pa.Array) -> _TwoWords:
        # Adding 0.0 makes a new array of doubles and turns -0.0 into 0.0.
        values = np.add(_values(array, dtype), 0.0, dtype=np.float64)
        low = values.view(np.uint64)
        is_nan = np.isnan(values)
        if is_nan.any():
            low[is_nan] = _NAN
        return low, None

    return words


def _days_of_milliseconds(array: pa.Array) -> _TwoWords:
    return (_values(array, np.int64) // _DAY_MS).view(np.uint64), None


def _times(dtype: DTypeLike) -> Callable[[pa.Array], _TwoWords]:
    def words(array: pa.Array) -> _TwoWords:
        values = _values(array, dtype).astype(np.int64, copy=False)
        factor = _MICROSECONDS[array.type.unit]
        return (values if factor == 1 else values * factor).view(np.uint64), None

    return words


def _decimals(array: pa.Array) -> _TwoWords:
    pairs = _values(array, np.dtype((np.uint64, 2)))
    low = np.ascontiguousarray(pairs[:, 0])
    # The upper half less the sign that the lower half shows: 0 if the number fits 64 bits, as most do.
    high = np.bitwise_xor(pairs[:, 1], (low.view(np.int64) >> 63).view(np.uint64), dtype=np.uint64)
    return low, high if high.any() else None


def _wide_decimals(array: pa.Array) -> _TwoWords:
    try:
        return _decimals(array.cast(pa.decimal128(38, array.type.scale)))
    except pa.ArrowInvalid as cause:
        raise TerminalError(
            f"a value of type {array.type} has more than 38 digits; Iceberg decimals have at most 38",
            type=str(array.type),
        ) from cause


def _values(array: pa.Array, dtype: DTypeLike) -> NDArray[Any]:
    kind = np.dtype(dtype)
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros((len(array), *kind.shape), kind.base)
    return np.frombuffer(buffer, kind, count=len(array), offset=array.offset * kind.itemsize)


def _bits(array: pa.Array, buffer_index: int) -> NDArray[np.uint8]:
    buffer = array.buffers()[buffer_index]
    if buffer is None or not len(array):
        return np.zeros(len(array), np.uint8)
    first_byte, first_bit = divmod(array.offset, 8)
    packed = np.frombuffer(buffer, np.uint8, count=-(-(first_bit + len(array)) // 8), offset=first_byte)
    return np.unpackbits(packed, count=first_bit + len(array), bitorder="little")[first_bit:]


_WORDS: Final[dict[int, Callable[[pa.Array], _TwoWords]]] = {
    pa.lib.Type_BOOL: _booleans,
    pa.lib.Type_INT8: _integers(np.int8),
    pa.lib.Type_INT16: _integers(np.int16),
    pa.lib.Type_INT32: _integers(np.int32),
    pa.lib.Type_INT64: _integers(np.int64),
    pa.lib.Type_UINT8: _integers(np.uint8),
    pa.lib.Type_UINT16: _integers(np.uint16),
    pa.lib.Type_UINT32: _integers(np.uint32),
    pa.lib.Type_UINT64: _integers(np.uint64),
    pa.lib.Type_HALF_FLOAT: _floats(np.float16),
    pa.lib.Type_FLOAT: _floats(np.float32),
    pa.lib.Type_DOUBLE: _floats(np.float64),
    pa.lib.Type_DATE32: _integers(np.int32),
    pa.lib.Type_DATE64: _days_of_milliseconds,
    pa.lib.Type_TIME32: _times(np.int32),
    pa.lib.Type_TIME64: _times(np.int64),
    pa.lib.Type_TIMESTAMP: _times(np.int64),
    pa.lib.Type_DURATION: _times(np.int64),
    pa.lib.Type_DECIMAL32: _integers(np.int32),
    pa.lib.Type_DECIMAL64: _integers(np.int64),
    pa.lib.Type_DECIMAL128: _decimals,
    pa.lib.Type_DECIMAL256: _wide_decimals,
}
