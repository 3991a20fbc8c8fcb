"""Errors of loading a table and of reading its metadata files, told apart by their type."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pydantic
from pyiceberg.exceptions import ResolveError, ValidationError

from icefloe.errors import IcefloeError, NotBuiltError, TerminalError, TransientError, lack_of_memory_named, one_line
from icefloe.iceberg.catalog.refused_certificate import refuse_untrusted
from icefloe.iceberg.catalog.unknown_types import unknown_column_type
from icefloe.iceberg.unreadable import UndecodableError

__all__ = ["MissingMetadataError", "reading_metadata"]

_DAMAGE: Final = (
    ArithmeticError, EOFError, LookupError, RecursionError, ResolveError, TypeError, UndecodableError, ValueError,
)  # fmt: skip


class MissingMetadataError(TerminalError):
    """A metadata file that the table names is missing."""

    path: str
    table: str


@contextmanager
def loading_metadata(catalog_name: str, table_name: str) -> Iterator[None]:
    """Turn an error of the metadata file to which a catalog leads into one sentence; errors of the catalog pass.

    Raises:
        NotBuiltError: PyIceberg does not know the type of a column.
        TransientError: the store did not answer.
        TerminalError: there is no such file.
    """
    try:
        yield
    except FileNotFoundError as cause:
        raise TerminalError(
            f"catalog {catalog_name!r} names a missing metadata file of table {table_name}: {one_line(cause)}",
            catalog=catalog_name, table=table_name,
        ) from cause  # fmt: skip
    except OSError as cause:
        # Clients of catalogs raise their own types; code that reads files raises the plain one.
        if type(cause) is not OSError:
            raise
        refuse_untrusted(
            cause, f"the metadata file of table {table_name} of catalog {catalog_name!r}", table=table_name
        )
        raise TransientError(
            f"catalog {catalog_name!r} names a metadata file of table {table_name} whose storage does not answer: "
            f"{one_line(cause)}",
            catalog=catalog_name, table=table_name,
        ) from cause  # fmt: skip
    except (ValidationError, pydantic.ValidationError) as cause:
        unknown = unknown_column_type(cause)
        if unknown is None:
            raise
        raise NotBuiltError(
            f"table {table_name} of catalog {catalog_name!r} cannot be loaded: column {unknown.column_index + 1} of "
            f"its schema has the type {unknown.type} or contains it, which this release cannot read: drop the column "
            "and expire the snapshots that had it, or use a release that knows the type",
            catalog=catalog_name, table=table_name, type=unknown.type, column_number=unknown.column_index + 1,
        ) from cause  # fmt: skip


@contextmanager
def reading_metadata(table_name: str, what: str, path: str) -> Iterator[None]:
    """Turn an error of reading ``path`` into one sentence.

    Args:
        table_name: for the sentence.
        what: the kind of file: "manifest", "manifest list of snapshot 7", "metadata file".
        path: location of the file.

    Raises:
        MissingMetadataError: there is no such file.
        TransientError: the store did not answer.
        TerminalError: the file is damaged, or not of the format its name promises.
        MemoryError: the process has no memory to decode it.
    """
    try:
        with lack_of_memory_named():
            yield
    except IcefloeError:
        raise
    except FileNotFoundError as cause:
        raise MissingMetadataError(
            f"the {what} of table {table_name} is missing: {path}; it was deleted, although the table still names it",
            table=table_name,
            path=path,
        ) from cause
    except OSError as cause:
        refuse_untrusted(cause, f"the {what} of table {table_name}, {path}", path=path, table=table_name)
        raise TransientError(
            f"cannot read the {what} of table {table_name}, {path}: {one_line(cause)}", table=table_name, path=path
        ) from cause
    except _DAMAGE as cause:
        raise TerminalError(
            f"the {what} of table {table_name} is damaged or of an unknown format: {path} "
            f"({type(cause).__name__}: {one_line(cause)})",
            table=table_name,
            path=path,
        ) from cause
