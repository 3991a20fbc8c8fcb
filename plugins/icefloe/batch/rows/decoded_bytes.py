"""The number of bytes decoded from data files."""

import pyarrow as pa

__all__ = ["DecodedBytes"]


class DecodedBytes:
    """Counts the Arrow memory of rows decoded from data files; rows decoded twice count twice.

    Data that is not decoded does not count: columns that are not read, row groups that the footer statistics rule out,
    pages after the last wanted row. Text that the file has as a dictionary counts as the dictionary and its indices.
    """

    def __init__(self) -> None:
        self.total = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Counts one batch of the file's own columns."""
        self.total += batch.nbytes
