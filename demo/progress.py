"""What the demo prints: a line for each batch as it happens, and what is going on in between."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from time import monotonic
from typing import Final

from demo.flights_table import TableChange
from rich.console import Console

from icefloe.units import format_bytes

__all__ = ["BatchResult", "Progress"]

_LINE: Final = "{:<54} {:<12} {:>9} {:>10} {:>10} {:>9} {:>8} {:>8} {:>8}"
_HEADER: Final = ("batch", "route", "rows read", "read", "shuffled", "inserts", "updates", "deletes", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """What one run of the DAG did, from the batch's report."""

    route: str
    rows_read: int
    bytes_read: int
    bytes_shuffled: int
    inserts: int
    updates: int
    deletes: int

    def differences(self, expected: TableChange) -> list[str]:
        """Where the delivered counts are not what was done to the table."""
        names = [field.name for field in fields(self) if field.name in ("inserts", "updates", "deletes")]
        found = [(name, getattr(self, name), getattr(expected, name)) for name in names]
        return [f"{name}: {counted:,} delivered, {done:,} made" for name, counted, done in found if counted != done]


class Progress:
    """Prints to the console; on a terminal a spinner runs while something is under way."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Say what is under way, and when it is done how long it took."""
        started = monotonic()
        if not self.console.is_terminal:
            self.say(f"{what} ...")
        with self.console.status(what):
            yield
        self.say(f"{what}: {monotonic() - started:.1f} s")

    def header(self) -> None:
        """The heads of the columns that `batch` fills."""
        self.say("\n" + _LINE.format(*_HEADER))

    def batch(self, change: TableChange, result: BatchResult, seconds: float) -> None:
        """One line for one batch."""
        counts = [f"{count:,}" for count in (result.inserts, result.updates, result.deletes)]
        sizes = [format_bytes(size) for size in (result.bytes_read, result.bytes_shuffled)]
        self.say(_LINE.format(change.title, result.route, f"{result.rows_read:,}", *sizes, *counts, f"{seconds:.1f}"))

    def say(self, text: str) -> None:
        """One line as it is, never wrapped or coloured."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
