"""What a map task read, held against what it was planned to read and against what it hands on."""

from collections.abc import Mapping, Sequence

from icefloe.audit.sums import AuditError
from icefloe.batch.document import FileWork

__all__ = ["ReadTally"]


class ReadTally:
    """The rows of a map task's files.

    Args:
        files: of the map task.
    """

    def __init__(self, files: Sequence[FileWork]) -> None:
        self._files = files
        self._rows_read: dict[str, int] = {}

    def add_file(self, work: FileWork, rows: int) -> None:
        """Notes that a file was read to its end, and how many rows it had."""
        self._rows_read[work.data_file.path] = rows

    @property
    def rows_read(self) -> int:
        """Rows, each file once."""
        return sum(self._rows_read.values())

    @property
    def bytes_read(self) -> int:
        """File bytes, each file once."""
        return sum(work.data_file.file_size_bytes for work in self._files)

    @property
    def removed_rows(self) -> int:
        """Rows of negative weight, a file once for every step that removes it."""
        return self._weighted(-1)

    @property
    def added_rows(self) -> int:
        """Rows of positive weight, a file once for every step that adds it."""
        return self._weighted(1)

    def require(self, handed_on: Mapping[int, int], *, what: str) -> None:
        """Every planned row was read, and cancelling kept the signed count of each step.

        Args:
            handed_on: rows of positive weight less rows of negative weight, by change ordinal.
            what: names the task, for the error.

        Raises:
            AuditError: a file was not read to its end, or the counts differ.
        """
        expected: dict[int, int] = {}
        for work in self._files:
            planned, rows = work.data_file.record_count, self._rows_read.get(work.data_file.path, 0)
            if rows != planned:
                raise AuditError(
                    f"{what} read {rows} of the {planned} rows of {work.data_file.path}; nothing was delivered, report "
                    "this as a bug", path=work.data_file.path,
                )  # fmt: skip
            for ordinal, weight in work.weights:
                expected[ordinal] = expected.get(ordinal, 0) + weight * rows
        for ordinal in sorted(expected.keys() | handed_on.keys()):
            if expected.get(ordinal, 0) != handed_on.get(ordinal, 0):
                raise AuditError(
                    f"{what} read {expected.get(ordinal, 0)} rows net in change ordinal {ordinal} and hands on "
                    f"{handed_on.get(ordinal, 0)}; nothing was delivered, report this as a bug", change_ordinal=ordinal,
                )  # fmt: skip

    def _weighted(self, sign: int) -> int:
        return sum(
            abs(weight) * work.data_file.record_count
            for work in self._files
            for _, weight in work.weights
            if weight * sign > 0
        )
