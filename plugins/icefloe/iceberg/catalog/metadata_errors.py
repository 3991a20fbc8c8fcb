"""Errors of loading a table and its metadata files; bounds of what is decoded."""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import BytesIO
from typing import Final, TypeVar

import pydantic
from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.io import InputFile
from pyiceberg.serializers import Compressor

from icefloe.errors import IcefloeError, NotBuiltError, TerminalError, TransientError, lack_of_memory_named, one_line
from icefloe.iceberg.catalog.file_io import refuse_untrusted, stored_bytes
from icefloe.iceberg.unreadable import UndecodableError
from icefloe.units import format_bytes

__all__ = ["MissingMetadataError", "decoded_metadata", "reading_metadata"]

_TYPE_KEYS: Final = {"type", "element", "key", "value"}


def unknown_column_type(error: BaseException) -> tuple[str, int] | None:
    """The first unknown type in an error, and its column's number, from 1."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, pydantic.ValidationError):
        cause = cause.__cause__
    for each in [] if cause is None else cause.errors(include_url=False):
        location = list(each["loc"])
        if "schemas" not in location or location[-1] not in _TYPE_KEYS or not isinstance(each["input"], str):
            continue
        match location[location.index("schemas") + 1 :]:
            case [int(), "fields", int(column), *_]:
                return each["input"], column + 1
    return None


MAX_METADATA_BYTES: Final = 128 << 20
MAX_METADATA_VALUES: Final = 4_000_000
"""The most bytes, after decompression, and the most keys and items of one JSON: those of more than 100,000 snapshots.
PyIceberg takes up to 350 bytes of memory for a key or an item."""
_PIECE_BYTES: Final = 1 << 20

Decoded = TypeVar("Decoded")

_DAMAGE: Final = (
    ArithmeticError, AttributeError, EOFError, LookupError, RecursionError, ResolveError, TypeError, UndecodableError,
    ValueError,
)  # fmt: skip


class MissingMetadataError(TerminalError):
    """A metadata file that the table names is missing."""


def decoded_metadata(
    file: InputFile, decode: Callable[[bytearray], Decoded], turn: AbstractContextManager[object] | None = None
) -> Decoded:
    """The content of a metadata file."""
    stored = stored_bytes(file, most_bytes=MAX_METADATA_BYTES)
    try:
        with (
            turn or nullcontext(),
            Compressor.get_compressor(file.location).stream_decompressor(BytesIO(stored)) as plain,
        ):
            pieces = iter(lambda: plain.read(_PIECE_BYTES), b"")
            return decode(decodable(pieces, f"the metadata file {file.location}"))
    except (EOFError, gzip.BadGzipFile, zlib.error) as cause:
        name = file.location.rpartition("/")[2]
        raise ValueError(f"{name} cannot be decompressed: {cause}") from cause


def decodable(pieces: Iterable[bytes], what: str) -> bytearray:
    """A JSON that decodes in no more memory than a process of Airflow has."""
    found, excess = bytearray(), None
    for piece in pieces:
        found += piece
        if len(found) > MAX_METADATA_BYTES:
            excess = format_bytes(MAX_METADATA_BYTES)
            break
    if excess is None and sum(map(found.count, (b",", b"[", b"{"))) > MAX_METADATA_VALUES:
        excess = f"{MAX_METADATA_VALUES:,} keys and items"
    if excess is not None:
        found.clear()  # the error's traceback keeps it
        raise TerminalError(
            f"{what} has more than {excess}, the most that icefloe decodes: expire snapshots of the table; if it has "
            "few, find out who wrote so much"
        )
    return found


@contextmanager
def loading_metadata(catalog_name: str, table_name: str) -> Iterator[None]:
    """Turn an error of a metadata file into one sentence; errors of the catalog pass."""
    try:
        yield
    except FileNotFoundError as cause:
        raise TerminalError(
            f"catalog {catalog_name!r} names a missing metadata file of table {table_name}: {one_line(cause)}"
        ) from cause
    except OSError as cause:
        # Clients of catalogs raise their own types; code that reads files raises the plain one.
        if type(cause) is not OSError:
            raise
        refuse_untrusted(cause, f"the metadata file of table {table_name} of catalog {catalog_name!r}")
        raise TransientError(
            f"catalog {catalog_name!r} names a metadata file of table {table_name} whose storage does not answer: "
            f"{one_line(cause)}"
        ) from cause
    except (ValidationError, pydantic.ValidationError) as cause:
        unknown = unknown_column_type(cause)
        if unknown is None:
            raise
        raise NotBuiltError(
            f"table {table_name} of catalog {catalog_name!r} cannot be loaded: column {unknown[1]} of "
            f"its schema has the type {unknown[0]} or contains it, which this release cannot read: drop the column "
            "and expire the snapshots that had it, or use a release that knows the type"
        ) from cause


@contextmanager
def reading_metadata(table_name: str, what: str, path: str) -> Iterator[None]:
    """Turn an error of reading ``path`` into one sentence.

    Args:
        what: such as "manifest", "manifest list of snapshot 7", "metadata file".

    Raises:
        MissingMetadataError: there is no such file.
    """
    try:
        with lack_of_memory_named():
            yield
    except IcefloeError:
        raise
    except FileNotFoundError as cause:
        raise MissingMetadataError(
            f"the {what} of table {table_name} is missing: {path}; it was deleted, although the table still names it"
        ) from cause
    except OSError as cause:
        refuse_untrusted(cause, f"the {what} of table {table_name}, {path}")
        raise TransientError(f"cannot read the {what} of table {table_name}, {path}: {one_line(cause)}") from cause
    except _DAMAGE as cause:
        raise TerminalError(
            f"the {what} of table {table_name} is damaged or of an unknown format: {path} "
            f"({type(cause).__name__}: {one_line(cause)})"
        ) from cause
