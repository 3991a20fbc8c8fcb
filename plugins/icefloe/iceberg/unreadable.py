"""Errors of unreadable files, raised by code that does not know the file; a caller that does adds its name."""

from icefloe.errors import TerminalError


class ColumnError(TerminalError):
    """A column of a data file cannot become the table's column."""

    def in_file(self, path: str, *, table: str, noun: str = "data file") -> "ColumnError":
        """The same error with the names of file and table."""
        sentence = f"{noun} {path} of table {table} cannot be read: {self.sentence}"
        return self.restated(sentence, path=path, table=table)


class UndecodableError(Exception):
    """The bytes of a file break the rules of its format."""
