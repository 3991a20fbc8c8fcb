"""JSON documents between processes: frozen dataclasses with ``"version": 1``, unknown keys refused."""

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, TypeAdapter, ValidationError

from icefloe.errors import TerminalError

__all__ = [
    "LEFT_OUT_IF_EMPTY",
    "LEFT_OUT_IF_NONE",
    "Document",
    "Hash128",
    "SnapshotId",
    "digest_of",
    "document_digest",
    "dump_document",
    "fields_crc32",
    "load_document",
]

Kind = TypeVar("Kind")


class Document:
    """Base of every document class, a dataclass; unknown keys are errors."""

    __slots__ = ()
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")


LEFT_OUT_IF_NONE: Final = Field(exclude_if=lambda value: value is None)
"""Marks a key that most documents do without."""

LEFT_OUT_IF_EMPTY: Final = Field(exclude_if=lambda value: not value)
"""The same for a key that is a list, true or false, or a number that is 0 by default."""

_UNPLAIN: Final = re.compile(r"[^ -~\n]")

SnapshotId = Annotated[int, PlainSerializer(str, return_type=str, when_used="json")]
"""A snapshot id: an int in Python, a string in JSON, because browsers and jq round numbers above 2^53."""

Hash128 = Annotated[
    int,
    Field(ge=0, lt=2**128),
    BeforeValidator(lambda value: int(value, 16) if isinstance(value, str) else value),
    PlainSerializer(lambda value: f"{value:032x}", return_type=str, when_used="json"),
]
"""An unsigned 128-bit number: an int in Python, 32 hexadecimal digits in JSON."""


def dump_document(document: object) -> bytes:
    """JSON, indented and with a final newline, for people who read it in the store.

    Invisible characters, such as those that turn the direction of a text, are escapes.
    """
    text = _adapter(type(document)).dump_json(document, indent=1).decode()
    seen = _UNPLAIN.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)
    return f"{seen}\n".encode()


def document_digest(document: object) -> str:
    """Digest of a document's content, 32 hexadecimal digits; keys that have their default add nothing."""
    return digest_of(_adapter(type(document)).dump_json(document, exclude_defaults=True))


def digest_of(data: bytes) -> str:
    """32 hexadecimal digits of SHA-256, by which one document names the content of another.

    >>> digest_of(b"")
    'e3b0c44298fc1c149afbf4c8996fb924'
    """
    return hashlib.sha256(data).hexdigest()[:32]


def fields_crc32(fields: Mapping[str, object]) -> int:
    """CRC-32 of a document without its key ``crc32``, however it is laid out.

    >>> fields_crc32({"b": 1, "a": "é"}) == fields_crc32({"a": "é", "b": 1, "crc32": 7})
    True
    """
    sealed = {name: value for name, value in fields.items() if name != "crc32"}
    return zlib.crc32(json.dumps(sealed, sort_keys=True, separators=(",", ":")).encode())


def load_document(kind: type[Kind], data: bytes, *, what: str) -> Kind:
    """The document in ``data``. ``what`` names it and its place, for the error."""
    try:
        return _adapter(kind).validate_json(data)
    except ValidationError as cause:
        first = cause.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the top level"
        raise TerminalError(
            f"{what} cannot be read as {kind.__name__} by this release: {first['msg']} at {place}; it was written by "
            "another release or damaged; if it is empty or cut, the section on empty or cut documents in "
            "docs/runbook.md says what to delete or restore",
        ) from cause  # fmt: skip


# Typed as a plain call: mypy does not take a class for Hashable, which a cached function requires of its arguments.
_adapter: Final[Callable[[Any], TypeAdapter[Any]]] = lru_cache(maxsize=64)(TypeAdapter)
