"""From the type a primitive column has in a file to the type it has in the table: exact, or refused."""

from typing import Final

import pyarrow as pa

from icefloe.iceberg.projection.conversions import (
    KEEP,
    Cast,
    Chain,
    Conversion,
    Decode,
    KeepDictionary,
    Nulls,
    Unwrap,
    View,
)

_TEXT: Final = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)


def plan_promotion(source: pa.DataType, target: pa.DataType) -> Conversion | None:
    """The step that turns values of a file into values of the table; None if Iceberg allows no such promotion.

    Args:
        source: as pyarrow reads the file.
        target: a type of ``arrow_type``, not nested.

    The step raises ``pa.ArrowInvalid`` for values that do not fit, and does not round. Only nanoseconds in a file of a
    microsecond column are truncated, as in PyIceberg.

    >>> plan_promotion(pa.int32(), pa.int64())
    Cast(target=DataType(int64), safe=True)
    >>> plan_promotion(pa.int64(), pa.int32()) is None
    True
    """
    if source == target:
        return KEEP
    if pa.types.is_null(source):
        return Nulls(target)
    if pa.types.is_dictionary(source):
        return _after(Decode(), plan_promotion(source.value_type, target))
    if isinstance(source, pa.BaseExtensionType):
        return _after(Unwrap(), plan_promotion(source.storage_type, target))
    if isinstance(target, pa.BaseExtensionType):
        return _after(plan_promotion(source, target.storage_type), View(target))
    return _number(source, target) or _time(source, target) or _text(source, target)


def plan_kept_dictionary(source: pa.DataType, target: pa.DataType) -> Conversion | None:
    """The step that leaves a dictionary-encoded text column encoded; None for other columns.

    >>> plan_kept_dictionary(pa.dictionary(pa.int32(), pa.string()), pa.large_string())
    KeepDictionary(values=Cast(target=DataType(large_string), safe=True), index_type=DataType(int32))
    """
    if not pa.types.is_dictionary(source) or not any(is_kind(target) for is_kind in _TEXT):
        return None
    values = plan_promotion(source.value_type, target)
    return None if values is None else KeepDictionary(values, source.index_type)


def _number(source: pa.DataType, target: pa.DataType) -> Conversion | None:
    types = pa.types
    for family in (types.is_integer, types.is_floating):
        if family(source) and family(target):
            return Cast(target) if source.bit_width <= target.bit_width else None
    if types.is_decimal(source) and types.is_decimal(target) and source.scale == target.scale:
        if source.precision > target.precision:
            return None
        return View(target) if types.is_decimal128(source) else Cast(target)
    return None


def _time(source: pa.DataType, target: pa.DataType) -> Conversion | None:
    types = pa.types
    if types.is_int64(source) and types.is_time(target):
        return View(target)  # ORC has no time of day: Iceberg keeps its microseconds there as they are
    if types.is_time(source) and types.is_time(target):
        return Cast(target, safe=source.unit != "ns")
    if types.is_date(source) and types.is_date(target):
        return Cast(target)
    if not types.is_timestamp(target):
        return None
    if types.is_timestamp(source):
        return _timestamp(source, target)
    return Cast(target) if types.is_date(source) and target.tz is None else None


def _timestamp(source: pa.DataType, target: pa.DataType) -> Conversion:
    """Parquet stores instants in UTC and local times as they are: zones are labels, so only the unit changes values."""
    if source.unit == target.unit:
        return View(target)
    plain = Cast(pa.timestamp(target.unit), safe=source.unit != "ns")
    return Chain(View(pa.timestamp(source.unit)), Chain(plain, View(target)))


def _text(source: pa.DataType, target: pa.DataType) -> Conversion | None:
    if pa.types.is_binary(source) and pa.types.is_fixed_size_binary(target):
        return Cast(target)  # ORC has no binaries of fixed length either
    if any(is_kind(source) for is_kind in _TEXT) and any(is_kind(target) for is_kind in _TEXT):
        return Cast(target)
    return None


def _after(first: Conversion | None, second: Conversion | None) -> Conversion | None:
    if first is None or second is None:
        return None
    return first if second is KEEP else second if first is KEEP else Chain(first, second)
