"""The result of one run of the DAG: its line on the screen, and its comparison with the commits to the table."""

from dataclasses import dataclass, replace
from typing import Final, Self

from demo.flights_table import TableChange
from icefloe.batch.report import BatchReport
from icefloe.units import format_bytes

__all__ = ["HEADER", "BatchResult"]

_LINE: Final = "{:<29} {:>7} {:<11} {:>9} {:>9} {:>9} {:>7} {:>7} {:>7} {:>7}"
HEADER: Final = _LINE.format(
    "batch", "commits", "route", "rows read", "read", "shuffled", "inserts", "updates", "deletes", "seconds"
)
"""The heads of the columns that `BatchResult.line` fills."""
_FIGURES: Final = ("commits", "rows_read", "bytes_read", "bytes_shuffled", "inserts", "updates", "deletes")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """The figures of one batch, from its report."""

    route: str
    commits: int
    rows_read: int
    bytes_read: int
    bytes_shuffled: int
    inserts: int
    updates: int
    deletes: int

    @classmethod
    def of(cls, report: BatchReport) -> Self:
        """The figures of a report."""
        return cls(
            route=report.route.value,
            commits=report.batch.steps,
            rows_read=report.rows_read,
            bytes_read=report.bytes_read,
            bytes_shuffled=report.shuffled_bytes,
            inserts=report.batch.counts["insert"],
            updates=report.batch.counts["update_after"],
            deletes=report.batch.counts["delete"],
        )

    def __add__(self, other: Self) -> Self:
        """The sum of two batches; the route is the shuffle if one of them took it."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _FIGURES}
        return replace(self, route="shuffle" if "shuffle" in (self.route, other.route) else self.route, **sums)

    def line(self, title: str, seconds: float) -> str:
        """One line under `HEADER`."""
        sizes = [format_bytes(size) for size in (self.bytes_read, self.bytes_shuffled)]
        counts = [f"{count:,}" for count in (self.inserts, self.updates, self.deletes)]
        return _LINE.format(title, self.commits, self.route, f"{self.rows_read:,}", *sizes, *counts, f"{seconds:.1f}")

    def differences(self, expected: TableChange) -> list[str]:
        """One sentence for each difference to the commits to the table."""
        names = ("route", "commits", "inserts", "updates", "deletes")
        pairs = [(name, getattr(self, name), getattr(expected, name)) for name in names]
        return [f"{expected.title}: {name} is {found}, not {done}" for name, found, done in pairs if found != done]
