"""What is wrong with a column of a data file; whoever knows the file adds its name."""

from icefloe.errors import TerminalError

__all__ = ["ColumnError"]


class ColumnError(TerminalError):
    """A column of a data file cannot become that of the table."""

    def in_file(self, path: str, *, table: str, noun: str = "data file") -> "ColumnError":
        """The same error with the names of file and table."""
        facts = {**self.facts, "path": path, "table": table}
        return ColumnError(f"{noun} {path} of table {table} cannot be read: {self.sentence}", **facts)
