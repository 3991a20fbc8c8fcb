"""Avro files of any schema and codec, for tests: what Iceberg's writers never make, and what is damaged."""

import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

SYNC = b"0123456789abcdef"
CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": lambda data: zlib.compress(data)[2:-4],
    "snappy": lambda data: pa.compress(data, "snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big"),
    "zstandard": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def record(*fields: tuple[Any, ...], name: str = "table") -> dict[str, Any]:
    """A record's schema of (name, type, field id)."""
    listed = [{"name": field[0], "type": field[1]} | ({"field-id": field[2]} if field[2:] else {}) for field in fields]
    return {"type": "record", "name": name, "fields": listed}


def write_avro(
    path: Path, schema: Any, rows: Sequence[Sequence[Any]], *, codec: str = "null", block_rows: int = 100
) -> None:
    """Rows as sequences of values, in blocks; strings and unscaled decimals are bytes, unions (branch, value)."""
    blocks = [rows[start : start + block_rows] for start in range(0, len(rows), block_rows)]
    contents = [(len(block), b"".join(encoded(schema, row, {}) for row in block)) for block in blocks]
    path.write_bytes(container(schema, *[(count, CODECS[codec](content)) for count, content in contents], codec=codec))


def container(schema: Any, *blocks: tuple[int, bytes], codec: str = "null") -> bytes:
    """A file of blocks, each with the number of rows that it says it has."""
    metadata = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    parts = [b"Obj\x01", varint(len(metadata))]
    parts += [sized(key.encode()) + sized(value) for key, value in metadata.items()]
    return b"".join([*parts, b"\0", SYNC, *(varint(rows) + sized(content) + SYNC for rows, content in blocks)])


def encoded(schema: Any, value: Any, names: dict[str, Any]) -> bytes:
    if isinstance(schema, list):
        branch, inner = value
        return varint(branch) + encoded(schema[branch], inner, names)
    if isinstance(schema, str) and schema in names:
        schema = names[schema]
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(schema, dict) and "name" in schema:
        names[schema["name"]] = schema
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return varint(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "bytes" | "string":
            return sized(value if isinstance(value, bytes) else value.encode())
        case "fixed":
            return bytes(value)
        case "record":
            pairs = zip(schema["fields"], value, strict=True)
            return b"".join(encoded(field["type"], each, names) for field, each in pairs)
        case "array":
            return _sequence([encoded(schema["items"], each, names) for each in value])
    return encoded(kind, value, names)


def _sequence(items: list[bytes]) -> bytes:
    """Two blocks, the second with its size before it, as writers may."""
    first, second = items[: len(items) // 2], items[len(items) // 2 :]
    content = (varint(len(first)) + b"".join(first)) if first else b""
    if second:
        content += varint(-len(second)) + sized(b"".join(second))
    return content + b"\0"


def sized(content: bytes) -> bytes:
    return varint(len(content)) + content


def varint(number: int) -> bytes:
    """Zigzag, seven bits a byte."""
    rest = (number << 1) ^ (number >> 63)
    content = bytearray()
    while rest > 0x7F:
        content.append(rest & 0x7F | 0x80)
        rest >>= 7
    content.append(rest)
    return bytes(content)
