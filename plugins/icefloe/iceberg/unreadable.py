"""Errors of unreadable files, raised before the file is known; encryption."""

from typing import Final

from pyiceberg.table.metadata import TableMetadata

from icefloe.errors import NotBuiltError, TerminalError

_KEY_ID: Final = "encryption.key-id"


class ColumnError(TerminalError):
    """A column of a data file cannot become the table's column."""

    def in_file(self, path: str, *, table: str, noun: str = "data file") -> "ColumnError":
        """The same error, of a file."""
        sentence = f"{noun} {path} of table {table} cannot be read: {self.sentence}"
        return self.restated(sentence)


class UndecodableError(Exception):
    """The bytes of a file break the rules of its format."""


class EncryptedRowsError(Exception):
    """The rows of a file are encrypted."""


def encrypted_file(path: str, *, noun: str = "file") -> NotBuiltError:
    """The error of a file that is encrypted."""
    return NotBuiltError(
        f"{noun} {path} is encrypted, which this release cannot read: copy its table into one without encryption, or "
        "wait for a release that decrypts"
    )


def refuse_encrypted(metadata: TableMetadata, *, table: str) -> None:
    """Refuse an encrypted table: only its catalog's key service hands out the keys."""
    # Source: https://iceberg.apache.org/docs/latest/encryption/
    if _KEY_ID in metadata.properties:
        raise NotBuiltError(
            f"table {table} is encrypted (it has the property {_KEY_ID}), which this release cannot read: copy it into "
            "a table without encryption, or wait for a release that decrypts"
        )
