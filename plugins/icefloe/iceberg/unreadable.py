"""Errors of files that cannot be read, raised by code that does not know the file; whoever does adds its name."""

from icefloe.errors import TerminalError

__all__ = ["ColumnError", "UndecodableError"]


class ColumnError(TerminalError):
    """A column of a data file cannot become that of the table."""

    def in_file(self, path: str, *, table: str, noun: str = "data file") -> "ColumnError":
        """The same error with the names of file and table."""
        facts = {**self.facts, "path": path, "table": table}
        return ColumnError(f"{noun} {path} of table {table} cannot be read: {self.sentence}", **facts)


class UndecodableError(Exception):
    """The bytes of a file are not what its format demands."""
