"""Opens the files of a table with PyIceberg's FileIO; failures become our errors by type."""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyiceberg.catalog import TOKEN, URI
from pyiceberg.io import ARROW_FILE_IO, FSSPEC_FILE_IO, PY_IO_IMPL, S3_SIGNER, FileIO, InputFile, load_file_io

from icefloe.errors import TerminalError, TransientError, lack_of_memory_named, one_line
from icefloe.iceberg.unreadable import EncryptedRowsError, UndecodableError, encrypted_file
from icefloe.redaction.hidden import hide

__all__ = [
    "FileGoneError",
    "FileIO",
    "FileRefusedError",
    "FileUnansweredError",
    "data_file_input",
    "exact",
    "is_local",
    "reading_data_file",
    "stored_bytes",
]

logger = logging.getLogger(__name__)


_CLIENTS: Final = frozenset({"aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google"})
_AUTH_MANAGER: Final = "auth.manager"
"""The object that gets the tokens of a REST catalog; the module of its name takes 0.4 s to import."""
_OF_FILES: Final = re.compile(
    r"(adls|client|gcs|hdfs|hf|s3)\..+|buffer-size|py-io-impl|warehouse|DEFAULT_SCHEME|DEFAULT_NETLOC"
)
_OF_SIGNING: Final = re.compile(rf"{URI}|header\..+")


def file_io_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a catalog's FileIO that a FileIO in another process needs.

    A catalog merges its own properties into its FileIOs': secrets and, for REST, an object that gets tokens and cannot
    always be pickled.

    A user's own class keeps all properties that are text. If the catalog signs requests, the FileIO gets the present
    token, never the credentials for a new one.

    >>> file_io_properties({"uri": "https://c", "token": "t", "s3.region": "eu-west-1", "warehouse": "lake"})
    {'s3.region': 'eu-west-1', 'warehouse': 'lake'}
    """
    if properties.get(PY_IO_IMPL, ARROW_FILE_IO) not in (ARROW_FILE_IO, FSSPEC_FILE_IO):
        return {key: value for key, value in properties.items() if isinstance(value, str)}
    kept = {key: value for key, value in properties.items() if _OF_FILES.fullmatch(key)}
    if properties.get(S3_SIGNER):
        kept |= {key: value for key, value in properties.items() if _OF_SIGNING.fullmatch(key)}
        if (manager := properties.get(_AUTH_MANAGER)) is not None:
            kept["header.Authorization"] = manager.auth_header()
        elif TOKEN in properties:
            kept[TOKEN] = properties[TOKEN]
    return kept


_LOCATION: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]*:(?://[^/?#]*)?+(?P<path>/.*)", re.DOTALL)
_WITH_FOLDERS: Final = frozenset({"file", "hdfs", "viewfs"})
"""Schemes of file systems, on which such a path leads to a file."""
_WRONG_CHECKSUM: Final = "CRC checksum verification failed"
"""Arrow's words for a Parquet page whose bytes are not those that its writer had."""


class FileGoneError(TerminalError):
    """A file in the table's metadata is no longer in its storage."""


class FileRefusedError(TerminalError):
    """The storage denied access to a file of the table."""


class FileUnansweredError(TransientError):
    """A file was not delivered. Only Arrow's text shows if it was refused or there was another fault."""


def open_file_io(properties: Mapping[str, str], location: str) -> FileIO:
    """PyIceberg's FileIO for a table: the properties choose the class, otherwise the location's scheme."""
    # The properties may hold secrets: they appear in no log and no error.
    hide(properties, only_secrets=True)
    try:
        io = load_file_io(dict(properties), location)
    except (ImportError, ValueError) as cause:
        raise TerminalError(
            f"the files at {location} cannot be opened: PyIceberg found no FileIO for them; check `py-io-impl` of the "
            "catalog, and that the package for this storage is installed"
        ) from cause
    logger.debug("reading %s with %s", location, type(io).__name__)
    return io


def exact(io: FileIO) -> FileIO:
    """A FileIO that opens paths as written: PyIceberg's on PyArrow ends them at ``#``, ``?`` or ``;``."""
    if type(io).__module__ != "pyiceberg.io.pyarrow":
        return io
    given = copy(io)
    given.parse_location = _exact_location  # type: ignore[attr-defined]
    return given


def _exact_location(location: str, properties: Mapping[str, str] = MappingProxyType({})) -> tuple[str, str, str]:
    """Scheme, authority and whole path as PyIceberg on PyArrow takes them."""
    from pyiceberg.io.pyarrow import PyArrowFileIO  # loaded already: the FileIO is of this module

    scheme, authority, path = PyArrowFileIO.parse_location(location, dict(properties))
    parts = _LOCATION.fullmatch(location)
    if parts is None:
        return scheme, authority, path
    whole = parts["path"]
    odd = next((f"/{part}/" for part in whole[1:].split("/") if part in {"", ".", ".."}), None)
    if odd is not None and scheme not in _WITH_FOLDERS:
        raise TerminalError(
            f"the path {location} has {odd} in it, for which PyArrow does not ask a store: set py-io-impl of the "
            "catalog to pyiceberg.io.fsspec.FsspecFileIO and install its package (s3fs for S3), or write the file "
            "below a location without it"
        )
    return scheme, authority, whole if scheme in {"hdfs", "viewfs"} else f"{authority}{whole}"


def data_file_input(io: FileIO, path: str, *, table: str, noun: str = "data file") -> InputFile:
    """The opener of one data file, or of another kind by its noun."""
    try:
        return io.new_input(path)
    except (ImportError, ValueError) as cause:
        raise TerminalError(
            f"{noun} {path} of table {table} cannot be opened: {type(io).__name__} cannot reach its storage; check "
            "the catalog's properties, and that the package for this storage is installed"
        ) from cause


def stored_bytes(file: InputFile, *, most_bytes: int) -> bytes:
    """The bytes of a file; of a larger one the first ``most_bytes`` and one more."""
    with file.open() as stream:
        # Arrow allocates all that is asked for before it reads: manifests read at once asked for gigabytes.
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        return stream.read(min(size, most_bytes + 1))


def is_local(location: str) -> bool:
    """True if a location is on this machine's own file system.

    >>> is_local("file:///data/a.parquet"), is_local("/data/a.parquet"), is_local("s3://data/a.parquet")
    (True, True, False)
    """
    return urlsplit(location).scheme in {"", "file"}


@contextmanager
def reading_data_file(path: str, *, table: str, noun: str = "data file") -> Iterator[None]:
    """A block that reads one file: its errors name file and table.

    Raises:
        FileGoneError: the file does not exist.
        FileRefusedError: access is denied.
        FileUnansweredError: the storage did not answer, or refused in words that Arrow does not know.
    """
    try:
        with lack_of_memory_named():
            yield
    except FileNotFoundError as cause:
        raise FileGoneError(
            f"{noun} {path} of table {table} is gone: its snapshot was expired, or the file was deleted; restore "
            "it, or load the whole table again with icefloe reset"
        ) from cause
    except PermissionError as cause:
        raise FileRefusedError(
            f"{noun} {path} of table {table} may not be read: the storage denied access; check the credentials"
        ) from cause
    except EncryptedRowsError as cause:
        raise encrypted_file(path, noun=noun) from cause
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UndecodableError, UnicodeDecodeError) as cause:
        raise _damaged(path, table, noun, cause) from cause
    except Exception as cause:
        if not is_of_storage(cause):
            raise
        # Arrow has one type for undecodable bytes and for unreachable storage; a local disk that fails sets errno.
        if (is_local(path) and getattr(cause, "errno", None) is None) or _WRONG_CHECKSUM in str(cause):
            raise _damaged(path, table, noun, cause) from cause
        raise FileUnansweredError(
            f"{noun} {path} of table {table} could not be read: {one_line(cause)}; the storage may be back at "
            "the next try"
        ) from cause


def is_of_storage(cause: Exception) -> bool:
    """True for an OSError, and for an error of a client beneath fsspec, which hands on what is none."""
    return isinstance(cause, OSError) or type(cause).__module__.partition(".")[0] in _CLIENTS


def _damaged(path: str, table: str, noun: str, cause: Exception) -> TerminalError:
    return TerminalError(
        f"{noun} {path} of table {table} cannot be decoded: {one_line(cause)}; it is damaged or contradicts the "
        "table's metadata; restore it or rewrite it"
    )
