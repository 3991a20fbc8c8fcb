"""Errors of reading a table's metadata files, told apart by their type."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyiceberg.exceptions import ResolveError

from icefloe.errors import IcefloeError, TerminalError, TransientError, one_line
from icefloe.iceberg.catalog.refused_certificate import refuse_untrusted
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
    """
    try:
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
