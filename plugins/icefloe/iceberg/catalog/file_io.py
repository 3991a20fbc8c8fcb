"""Opens the files of a table with PyIceberg's FileIO; its failures become our errors, told apart by type."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyiceberg.io import FileIO, InputFile, load_file_io

from icefloe.errors import TerminalError, TransientError, lack_of_memory_named, one_line
from icefloe.iceberg.unreadable import EncryptedRowsError, UndecodableError, encrypted_file
from icefloe.redaction.hidden import hide

__all__ = [
    "FileGoneError",
    "FileRefusedError",
    "FileUnansweredError",
    "data_file_input",
    "exact",
    "is_local",
    "open_file_io",
    "reading_data_file",
]

logger = logging.getLogger(__name__)

_LOCATION: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]*:(?://[^/?#]*)?+(?P<path>/.*)", re.DOTALL)
_WITH_FOLDERS: Final = frozenset({"file", "hdfs", "viewfs"})
"""Schemes of file systems, on which such a path leads to a file."""
_WRONG_CHECKSUM: Final = "CRC checksum verification failed"
"""Arrow's words for a Parquet page whose bytes are not those that its writer had."""


class FileGoneError(TerminalError):
    """A file that the table's metadata names is no longer in its storage."""

    path: str
    table: str


class FileRefusedError(TerminalError):
    """The storage denied access to a file of the table."""

    path: str
    table: str


class FileUnansweredError(TransientError):
    """The storage did not deliver a file of the table. Only Arrow's text shows if it refused or had another fault."""

    path: str
    table: str


def open_file_io(properties: Mapping[str, str], location: str) -> FileIO:
    """PyIceberg's FileIO for a table.

    Args:
        properties: of the catalog and the table; they may hold secrets and appear in no log and no error.
        location: of the table; its scheme chooses the implementation if the properties do not.

    Raises:
        TerminalError: the properties name an implementation that cannot be loaded.
    """
    hide(properties, only_secrets=True)
    try:
        io = load_file_io(dict(properties), location)
    except (ImportError, ValueError) as cause:
        raise TerminalError(
            f"the files at {location} cannot be opened: PyIceberg found no FileIO for them; check `py-io-impl` of the "
            "catalog, and that the package for this storage is installed",
            location=location,
        ) from cause
    logger.debug("reading %s with %s", location, type(io).__name__)
    return io


def exact(io: FileIO) -> FileIO:
    """A FileIO that opens a path as it is written: PyIceberg's on PyArrow ends it at ``#``, ``?`` or ``;``."""
    if type(io).__module__ != "pyiceberg.io.pyarrow":
        return io
    given = copy(io)
    given.parse_location = _exact_location  # type: ignore[attr-defined]
    return given


def _exact_location(location: str, properties: Mapping[str, str] = MappingProxyType({})) -> tuple[str, str, str]:
    """Scheme, authority and path as PyIceberg's FileIO on PyArrow takes them; the path is whole.

    Raises:
        TerminalError: PyArrow would not ask the store for such a path.
    """
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
            "below a location without it",
            path=location,
        )
    return scheme, authority, whole if scheme in {"hdfs", "viewfs"} else f"{authority}{whole}"


def data_file_input(io: FileIO, path: str, *, table: str, noun: str = "data file") -> InputFile:
    """The opener of one data file, or of a delete file if the noun says so.

    Raises:
        TerminalError: the FileIO knows no storage of this kind, or lacks a package for it.
    """
    try:
        return io.new_input(path)
    except (ImportError, ValueError) as cause:
        raise TerminalError(
            f"{noun} {path} of table {table} cannot be opened: {type(io).__name__} cannot reach its storage; check "
            "the catalog's properties, and that the package for this storage is installed",
            path=path,
            table=table,
        ) from cause


def is_local(location: str) -> bool:
    """True if a location is on this machine's own file system.

    >>> is_local("file:///data/a.parquet"), is_local("/data/a.parquet"), is_local("s3://data/a.parquet")
    (True, True, False)
    """
    return urlsplit(location).scheme in {"", "file"}


@contextmanager
def reading_data_file(path: str, *, table: str, noun: str = "data file") -> Iterator[None]:
    """Run a block that reads one data file, or a delete file if the noun says so; errors name file and table.

    Raises:
        FileGoneError: the file does not exist.
        FileRefusedError: access is denied.
        FileUnansweredError: the storage did not answer, or refused in words that Arrow does not know.
        TerminalError: the content is damaged.
        MemoryError: the process has no memory to decode it.
    """
    try:
        with lack_of_memory_named():
            yield
    except FileNotFoundError as cause:
        raise FileGoneError(
            f"{noun} {path} of table {table} is gone: its snapshot was expired, or the file was deleted; restore "
            "it, or load the whole table again with icefloe reset",
            path=path,
            table=table,
        ) from cause
    except PermissionError as cause:
        raise FileRefusedError(
            f"{noun} {path} of table {table} may not be read: the storage denied access; check the credentials",
            path=path,
            table=table,
        ) from cause
    except EncryptedRowsError as cause:
        raise encrypted_file(path, noun=noun) from cause
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UndecodableError, UnicodeDecodeError) as cause:
        raise _damaged(path, table, noun, cause) from cause
    except OSError as cause:
        from icefloe.iceberg.catalog.refused_certificate import refuse_untrusted  # not needed by tasks that read well

        refuse_untrusted(cause, f"{noun} {path} of table {table}", path=path, table=table)
        # Arrow has one type for undecodable bytes and for unreachable storage; a local disk that fails sets errno.
        if (is_local(path) and cause.errno is None) or _WRONG_CHECKSUM in str(cause):
            raise _damaged(path, table, noun, cause) from cause
        raise FileUnansweredError(
            f"{noun} {path} of table {table} could not be read: {one_line(cause)}; the storage may be back at "
            "the next try",
            path=path,
            table=table,
        ) from cause


def _damaged(path: str, table: str, noun: str, cause: Exception) -> TerminalError:
    return TerminalError(
        f"{noun} {path} of table {table} cannot be decoded: {one_line(cause)}; it is damaged or contradicts the "
        "table's metadata; restore it or rewrite it",
        path=path,
        table=table,
    )
