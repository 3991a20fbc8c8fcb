"""Values of Arrow types from JSON, as `icefloe.sinks.kafka.json_texts` writes them."""

from base64 import b64decode
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from icefloe.sinks.kafka.avro_schemas import avro_name
from icefloe.sinks.kafka.json_texts import EXACT, JsonForm


def from_json(value: Any, kind: pa.DataType, form: JsonForm) -> Any:
    """A value that ``pa.array(..., kind)`` takes. A field that a struct does not have is null in it.

    >>> from_json(18263, pa.date32(), JsonForm.DEBEZIUM), from_json("1970-01-02", pa.date32(), JsonForm.READABLE)
    (18263, 1)
    """
    if value is None:
        return None
    if isinstance(kind, pa.BaseExtensionType):
        return UUID(value).bytes
    if pa.types.is_floating(kind):
        return float(value)
    if form is JsonForm.AVRO and isinstance(value, bytes | Decimal):
        return value
    if pa.types.is_decimal(kind):
        if form is JsonForm.CONNECT:
            unscaled = int.from_bytes(b64decode(value), "big", signed=True)
            return Decimal(unscaled).scaleb(-kind.scale, EXACT)
        return Decimal(value)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return b64decode(value)
    if pa.types.is_temporal(kind):
        return value if isinstance(value, int) else _units(value, kind)
    if pa.types.is_struct(kind):
        names = {field.name: avro_name(field.name) if form is JsonForm.AVRO else field.name for field in kind}
        return {field.name: from_json(value.get(names[field.name]), field.type, form) for field in kind}
    if pa.types.is_map(kind):
        entries = value.items() if isinstance(value, Mapping) else value
        if form is JsonForm.AVRO and not isinstance(value, Mapping):
            entries = [(entry["key"], entry["value"]) for entry in value]
        return [(from_json(key, kind.key_type, form), from_json(item, kind.item_type, form)) for key, item in entries]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [from_json(each, kind.value_type, form) for each in value]
    return value


def _units(text: str, kind: pa.DataType) -> int:
    """Days, or units of the type, since 1970 or midnight."""
    if pa.types.is_date(kind):
        return int(np.datetime64(text, "D").astype(np.int64))
    whole = text.removesuffix("Z") if pa.types.is_timestamp(kind) else f"1970-01-01T{text}"
    return int(np.datetime64(whole, kind.unit).astype(np.int64))
