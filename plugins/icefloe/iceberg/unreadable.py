"""Errors of unreadable files, raised by code that does not know the file; a caller that does adds its name."""

from icefloe.errors import NotBuiltError, TerminalError


class ColumnError(TerminalError):
    """A column of a data file cannot become the table's column."""

    def in_file(self, path: str, *, table: str, noun: str = "data file") -> "ColumnError":
        """The same error with the names of file and table."""
        sentence = f"{noun} {path} of table {table} cannot be read: {self.sentence}"
        return self.restated(sentence, path=path, table=table)


class UndecodableError(Exception):
    """The bytes of a file break the rules of its format."""


class EncryptedError(NotBuiltError):
    """A table, or one of its files, is encrypted."""


class EncryptedRowsError(Exception):
    """The rows of a file are encrypted."""


def encrypted_file(path: str, *, noun: str = "file") -> EncryptedError:
    """The error of an encrypted file of a table."""
    return EncryptedError(
        f"{noun} {path} is encrypted, which this release cannot read: copy its table into one without encryption, or "
        "wait for a release that decrypts",
        path=path,
    )
