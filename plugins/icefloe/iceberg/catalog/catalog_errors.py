"""Errors of catalogs and metadata files as sentences by type; bounds of what is decoded."""

import gzip
import ssl
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import BytesIO
from typing import Final, TypeVar

import pydantic
from pyiceberg.exceptions import DynamoDbError
from pyiceberg.io import InputFile
from pyiceberg.serializers import Compressor

from icefloe.errors import IcefloeError, TerminalError, TransientError, lack_of_memory_named, one_line
from icefloe.iceberg.catalog.file_io import FileGoneError, is_of_storage, stored_bytes
from icefloe.iceberg.unreadable import UndecodableError
from icefloe.redacted_output import raise_outgoing
from icefloe.redaction.hidden import redacted_foreign
from icefloe.storage.dynamodb_table import may_pass
from icefloe.units import format_bytes

__all__ = ["catalog_errors", "decoded_metadata", "reading_metadata"]

# By name, because clients of catalogs are optional packages, and some of them take a while to import.
_TRANSIENT: Final = frozenset({
    "azure.core.exceptions.ServiceRequestError", "azure.core.exceptions.ServiceResponseError",
    "google.api_core.exceptions.RetryError", "google.api_core.exceptions.ServerError",
    "google.api_core.exceptions.TooManyRequests", "google.auth.exceptions.TransportError",
    "pyiceberg.exceptions.DynamoDbError", "pyiceberg.exceptions.ServerError",
    "pyiceberg.exceptions.ServiceUnavailableError", "pyiceberg.exceptions.TooManyRequestsError",
    "pyiceberg.exceptions.WaitingForLockException",
    "requests.exceptions.ChunkedEncodingError", "requests.exceptions.ConnectionError", "requests.exceptions.Timeout",
    "sqlalchemy.exc.InterfaceError", "sqlalchemy.exc.InternalError", "sqlalchemy.exc.OperationalError",
    "sqlalchemy.exc.TimeoutError", "thrift.transport.TTransport.TTransportException",
})  # fmt: skip
_BY_AWS: Final = frozenset({"botocore.exceptions.BotoCoreError", "botocore.exceptions.ClientError"})
_TERMINAL: Final = _BY_AWS | {
    "azure.core.exceptions.AzureError", "google.api_core.exceptions.GoogleAPIError",
    "google.auth.exceptions.GoogleAuthError",
    "builtins.AttributeError", "builtins.ImportError", "builtins.LookupError", "builtins.NotImplementedError",
    "builtins.TypeError", "builtins.ValueError", "pyiceberg.exceptions.NoSuchPropertyException",
    "pyiceberg.exceptions.NotInstalledError", "pyiceberg.exceptions.RESTError", "pyiceberg.exceptions.ValidationError",
    "requests.exceptions.RequestException", "sqlalchemy.exc.SQLAlchemyError", "thrift.Thrift.TException",
}  # fmt: skip
_LONGEST: Final = 200


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
    kinds = _kinds(cause)
    # The more exact types come first: requests' errors are OSErrors, some of them ValueErrors too.
    is_transient = kinds & _TRANSIENT or (kinds & _BY_AWS and may_pass(cause))
    if kinds & _TERMINAL and not is_transient:
        return TerminalError(f"catalog {catalog_name!r}: cannot {doing} ({_shortly(cause)})")
    if not is_transient and not isinstance(cause, OSError):
        return None
    # Each client has its own types for a timeout, and some report it in words only.
    said = f"{type(cause).__name__} {cause}".lower()
    is_late = "timeout" in said or "timed out" in said
    advice = "; wait for it, and if it is only slow, set a larger ICEFLOE_PATIENCE_SECONDS" if is_late else ""
    return TransientError(f"catalog {catalog_name!r} does not answer: cannot {doing} ({_shortly(cause)}){advice}")


def _kinds(cause: BaseException) -> set[str]:
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(cause).__mro__}


def refused_certificate(cause: BaseException) -> str | None:
    """Why a certificate was refused, in the client's words; None for another error."""
    seen: set[int] = set()
    below: BaseException | None = cause
    while below is not None and id(below) not in seen:
        seen.add(id(below))
        if isinstance(below, ssl.SSLCertVerificationError):
            return below.verify_message
        # urllib3 and requests hand the reason on as an argument, not as a cause.
        inner = (getattr(below, "reason", None), *below.args, below.__cause__, below.__context__)
        below = next((each for each in inner if isinstance(each, BaseException)), None)
    return None


def _beneath(cause: Exception) -> Exception:
    """The botocore error that PyIceberg's catalog on DynamoDB replaces, if any; otherwise itself."""
    # The catalog asks such an error for a text that it does not have, so that most of them end as an AttributeError.
    replaced = cause.__cause__ or cause.__context__
    if not isinstance(cause, (AttributeError, DynamoDbError)) or not isinstance(replaced, Exception):
        return cause
    return replaced if _kinds(replaced) & _BY_AWS else cause


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


MAX_METADATA_BYTES: Final = 128 << 20
MAX_METADATA_VALUES: Final = 4_000_000
"""The most bytes, after decompression, and the most keys and items of one JSON: those of more than 100,000 snapshots.
PyIceberg takes up to 350 bytes of memory for a key or an item."""
_PIECE_BYTES: Final = 1 << 20

Decoded = TypeVar("Decoded")

_DAMAGE: Final = (
    ArithmeticError, AttributeError, EOFError, LookupError, RecursionError, TypeError, UndecodableError,
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
    except ImportError as cause:
        raise TerminalError(
            f"the {what} of table {table_name}, {path}, cannot be opened ({_shortly(cause)}): install the package for "
            "this storage, or set py-io-impl of the catalog"
        ) from cause
    except Exception as cause:
        if is_of_storage(cause):
            raise TransientError(f"cannot read the {what} of table {table_name}, {path}: {one_line(cause)}") from cause
        if not isinstance(cause, _DAMAGE):
            raise
        raise TerminalError(
            f"the {what} of table {table_name} is damaged or of an unknown format: {path} ({_shortly(cause)})"
        ) from cause
