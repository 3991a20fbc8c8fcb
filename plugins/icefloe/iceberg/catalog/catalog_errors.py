"""Errors of catalogs and metadata files as sentences by type; bounds of what is decoded."""

import gzip
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import BytesIO
from typing import Final, TypeVar

import pydantic
from pyiceberg.exceptions import (
    DynamoDbError,
    NoSuchPropertyException,
    NotInstalledError,
    ResolveError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    ValidationError,
    WaitingForLockException,
)
from pyiceberg.io import InputFile
from pyiceberg.serializers import Compressor

from icefloe.errors import IcefloeError, NotBuiltError, TerminalError, TransientError, lack_of_memory_named, one_line
from icefloe.iceberg.catalog.file_io import FileGoneError, refused_certificate, stored_bytes, untrusted
from icefloe.iceberg.unreadable import UndecodableError
from icefloe.redacted_output import raise_outgoing
from icefloe.redaction.hidden import redacted_foreign
from icefloe.storage.dynamodb_table import may_pass
from icefloe.units import format_bytes

__all__ = ["decoded_metadata", "reading_metadata"]

_TRANSIENT: Final = (
    DynamoDbError, ServerError, ServiceUnavailableError, TooManyRequestsError, WaitingForLockException,
)  # fmt: skip
_TERMINAL: Final = (
    AttributeError, ImportError, LookupError, NoSuchPropertyException, NotImplementedError, NotInstalledError,
    RESTError, TypeError, ValidationError, ValueError,
)  # fmt: skip
_LONGEST: Final = 200
# Catalog clients are optional packages: one that was never imported raised nothing.
_TRANSIENT_BY_MODULE: Final = {
    "requests.exceptions": ("ConnectionError", "Timeout", "ChunkedEncodingError"),
    "sqlalchemy.exc": ("InterfaceError", "InternalError", "OperationalError", "TimeoutError"),
    "thrift.transport.TTransport": ("TTransportException",),
}
_BY_AWS: Final[dict[str, tuple[str, ...]]] = {"botocore.exceptions": ("BotoCoreError", "ClientError")}
_TERMINAL_BY_MODULE: Final[dict[str, tuple[str, ...]]] = {
    **_BY_AWS,
    "requests.exceptions": ("RequestException",),
    "sqlalchemy.exc": ("SQLAlchemyError",),
    "thrift.Thrift": ("TException",),
}


@contextmanager
def catalog_errors(catalog_name: str, doing: str) -> Iterator[None]:
    """Turn an error of a catalog into one sentence."""
    try:
        yield
    except IcefloeError:
        raise
    except Exception as cause:
        error = _error_of(cause, catalog_name, doing)
        if error is None:
            raise
        raise_outgoing(error, cause)


def _error_of(cause: Exception, catalog_name: str, doing: str) -> IcefloeError | None:
    """None: no client of a catalog raised it."""
    refused = refused_certificate(cause)
    if refused is not None:
        return TerminalError(
            f"catalog {catalog_name!r} shows a certificate that is refused ({refused}), so icefloe cannot {doing}; "
            "name the authority's file in `ssl: {cabundle: FILE}` of the catalog or in REQUESTS_CA_BUNDLE, or renew it"
        )
    cause = _beneath(cause)
    if isinstance(cause, tuple(_imported(_BY_AWS))) and may_pass(cause):
        return _unanswered(catalog_name, doing, cause)
    # The more exact types come first: requests' errors are OSErrors, some of them ValueErrors too.
    if isinstance(cause, (*_TRANSIENT, *_imported(_TRANSIENT_BY_MODULE))):
        return _unanswered(catalog_name, doing, cause)
    if isinstance(cause, (*_TERMINAL, *_imported(_TERMINAL_BY_MODULE))):
        return TerminalError(f"catalog {catalog_name!r}: cannot {doing} ({_shortly(cause)})")
    return _unanswered(catalog_name, doing, cause) if isinstance(cause, OSError) else None


def _beneath(cause: Exception) -> Exception:
    """The botocore error that PyIceberg's catalog on DynamoDB replaces, if any; otherwise itself."""
    # The catalog asks such an error for a text that it does not have, so that most of them end as an AttributeError.
    if isinstance(cause, (AttributeError, DynamoDbError)):
        replaced = cause.__cause__ or cause.__context__
        if isinstance(replaced, Exception) and isinstance(replaced, tuple(_imported(_BY_AWS))):
            return replaced
    return cause


def _unanswered(catalog_name: str, doing: str, cause: Exception) -> TransientError:
    sentence = f"catalog {catalog_name!r} does not answer: cannot {doing} ({_shortly(cause)}){_advice(cause)}"
    return TransientError(sentence)


def _advice(cause: Exception) -> str:
    # Each client has its own types for a timeout, and some report it in words only.
    said = f"{type(cause).__name__} {cause}".lower()
    is_late = "timeout" in said or "timed out" in said
    return "; wait for it, and if it is only slow, set a larger ICEFLOE_PATIENCE_SECONDS" if is_late else ""


def _imported(names_by_module: dict[str, tuple[str, ...]]) -> Iterator[type[Exception]]:
    for module_name, names in names_by_module.items():
        module = sys.modules.get(module_name)
        yield from (getattr(module, name) for name in names if module is not None)


def _shortly(cause: Exception) -> str:
    # PyIceberg puts pydantic's error into its own, whose first line says only how many faults there are.
    faults = cause if isinstance(cause, pydantic.ValidationError) else cause.__cause__
    text = str(cause)
    if isinstance(faults, pydantic.ValidationError):
        first = faults.errors(include_url=False, include_context=False, include_input=False)[0]
        text = f"{'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}"
    # The first line is the message. Redact before splitting, because a secret may hold line breaks.
    lines = redacted_foreign(text).strip().splitlines()
    said = " ".join(lines[0].split())[:_LONGEST] if lines else ""
    return f"{type(cause).__name__}: {said}" if said else type(cause).__name__


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
        error = untrusted(cause, f"the metadata file of table {table_name} of catalog {catalog_name!r}")
        raise error or TransientError(
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
        FileGoneError: there is no such file.
    """
    try:
        with lack_of_memory_named():
            yield
    except IcefloeError:
        raise
    except FileNotFoundError as cause:
        raise FileGoneError(
            f"the {what} of table {table_name} is missing: {path}; it was deleted, although the table still names it"
        ) from cause
    except OSError as cause:
        error = untrusted(cause, f"the {what} of table {table_name}, {path}")
        sentence = f"cannot read the {what} of table {table_name}, {path}: {one_line(cause)}"
        raise error or TransientError(sentence) from cause
    except _DAMAGE as cause:
        raise TerminalError(
            f"the {what} of table {table_name} is damaged or of an unknown format: {path} "
            f"({type(cause).__name__}: {one_line(cause)})"
        ) from cause
