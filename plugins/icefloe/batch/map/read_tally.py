"""Rows read by a map task, checked against the plan and against the rows that it hands on."""

from collections.abc import Mapping, Sequence

from icefloe.audit.sums import AuditError
from icefloe.batch.rows.file_effects import FileEffects
from icefloe.batch.rows.row_reader import ReadRows


class FileTally:
    """The rows of one file as they are read.

    Args:
        file: with its effects.
    """

    def __init__(self, file: FileEffects) -> None:
        self.file = file
        self.rows_read = 0
        self._rows = [0 for _ in file.effects]

    def add(self, rows: ReadRows) -> None:
        """Counts some rows, in the steps that touch them."""
        self.rows_read += rows.rows_read
        positions = rows.positions
        for index, effect in enumerate(self.file.effects):
            self._rows[index] += len(positions) if effect.rows.is_all else len(effect.rows.among(positions))

    def add_all(self, num_rows: int) -> None:
        """Counts rows of a file whose every row is touched by each of its effects."""
        self.rows_read += num_rows
        self._rows = [rows + num_rows for rows in self._rows]

    def weighted(self) -> list[tuple[int, int]]:
        """(change_ordinal, weight times rows) of each effect."""
        pairs = zip(self.file.effects, self._rows, strict=True)
        return [(effect.change_ordinal, effect.weight * rows) for effect, rows in pairs]


class ReadTally:
    """The rows of a map task's files.

    Args:
        files: files of the map task.
    """

    def __init__(self, files: Sequence[FileEffects]) -> None:
        self._files = files
        self._read: dict[tuple[str, int | None], FileTally] = {}

    def add_file(self, tally: FileTally) -> None:
        """Records that all touched rows of a file were read; a file that is read again counts once."""
        self._read[tally.file.key] = tally

    @property
    def rows_read(self) -> int:
        """Number of rows read; rows that are read separately for different steps count each time."""
        return sum(tally.rows_read for tally in self._read.values())

    @property
    def removed_rows(self) -> int:
        """Rows of negative weight, once for every step that removes them."""
        return self._weighted(-1)

    @property
    def added_rows(self) -> int:
        """Rows of positive weight, once for every step that adds them."""
        return self._weighted(1)

    def require(self, handed_on: Mapping[int, int], *, what: str) -> None:
        """Checks that every planned row was read, and that cancelling kept the signed count of each step.

        Args:
            handed_on: rows of positive weight less rows of negative weight, by change ordinal.
            what: names the task, for the error.

        Raises:
            AuditError: a file was not read to its end, or the counts differ.
        """
        expected: dict[int, int] = {}
        for file in self._files:
            path, planned = file.data_file.path, file.touched_count()
            tally = self._read.get(file.key)
            rows = 0 if tally is None else tally.rows_read
            if rows != planned:
                raise AuditError(
                    f"{what} read {rows} of the {planned} rows of {path}; nothing was delivered, report this as a bug",
                    path=path,
                )
            for ordinal, weighted in [] if tally is None else tally.weighted():
                expected[ordinal] = expected.get(ordinal, 0) + weighted
        for ordinal in sorted(expected.keys() | handed_on.keys()):
            if expected.get(ordinal, 0) != handed_on.get(ordinal, 0):
                raise AuditError(
                    f"{what} read {expected.get(ordinal, 0)} rows net in change ordinal {ordinal} and hands on "
                    f"{handed_on.get(ordinal, 0)}; nothing was delivered, report this as a bug", change_ordinal=ordinal,
                )  # fmt: skip

    def _weighted(self, sign: int) -> int:
        found = (weighted for tally in self._read.values() for _, weighted in tally.weighted())
        return sum(abs(weighted) for weighted in found if weighted * sign > 0)
