"""The text of primitive values, in documents and in their ids."""

import base64
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.sinks.moment_texts import moment_texts

_TEXT: Final = pa.large_string()


def value_text(values: pa.Array) -> pa.Array:
    """The text of each value as large_string; null for null.

    Numbers and booleans are as in JSON, except that a float that is no number is ``NaN``, ``Infinity`` or
    ``-Infinity``. Times are ISO 8601 with all digits of their unit, and with ``Z`` if the type has a zone. Bytes are
    base64, a UUID has its usual form.

    >>> value_text(pa.array([1.5, float("nan"), None])).to_pylist()
    ['1.5', 'NaN', None]
    >>> value_text(pa.array([1_700_000_000_000_001], pa.timestamp("us", "UTC"))).to_pylist()
    ['2023-11-14T22:13:20.000001Z']
    """
    kind = values.type
    if isinstance(kind, pa.UuidType):
        return pa.array([None if value is None else str(value) for value in values.to_pylist()], _TEXT)
    if pa.types.is_floating(kind):
        return _float_text(values)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return moment_texts(values)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array(
            [None if value is None else base64.b64encode(value).decode() for value in values.to_pylist()], _TEXT
        )
    if pa.types.is_boolean(kind):
        return pc.if_else(values, pa.scalar("true", _TEXT), pa.scalar("false", _TEXT))
    return values.cast(_TEXT)


def _float_text(values: pa.Array) -> pa.Array:
    # 0.0 and -0.0 are one value, and so one text. A float becomes a double first: its text must outlive a promotion.
    doubles = pc.add(values.cast(pa.float64()), 0.0)
    text = doubles.cast(_TEXT)
    for special, name in ((float("inf"), "Infinity"), (float("-inf"), "-Infinity")):
        text = pc.if_else(pc.equal(doubles, special), pa.scalar(name, _TEXT), text)
    return pc.if_else(pc.is_nan(doubles), pa.scalar("NaN", _TEXT), text)
