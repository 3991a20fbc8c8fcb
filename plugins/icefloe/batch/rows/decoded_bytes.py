"""How much of data files was decoded."""

import pyarrow as pa

__all__ = ["DecodedBytes"]


class DecodedBytes:
    """Counts what rows of data files take in Arrow's memory as they are decoded, as often as that is done.

    What is not decoded does not count: columns that are not read, row groups of which the footer says that no row
    passes the filter, pages behind the last row that is wanted. Text that the file has as a dictionary counts as the
    dictionary and its indices.
    """

    def __init__(self) -> None:
        self.total = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Counts one batch of the file's own columns."""
        self.total += batch.nbytes
