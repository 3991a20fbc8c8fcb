"""Progress on standard error: a spinner, and a bar once the amount of work is known."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class Activity:
    """Shows one thing at a time; nothing of it stays on the screen.

    Args:
        console: if it is quiet, nothing is shown.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: tuple[Progress, TaskID] | None = None

    @contextmanager
    def under_way(self, what: str) -> Iterator[None]:
        """Shows the name of the work under way and the time that it has taken."""
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        bar = Progress(*columns, console=self._console, transient=True, disable=self._console.quiet)
        with bar:
            self._shown = bar, bar.add_task(what, total=None)
            try:
                yield
            finally:
                self._shown = None

    def report(self, done: int, total: int) -> None:
        """Shows how many tasks of the work under way are done; any thread may call this."""
        if self._shown is None:
            return
        bar, task = self._shown
        if not any(isinstance(column, BarColumn) for column in bar.columns):
            bar.columns = (*bar.columns[:2], BarColumn(), MofNCompleteColumn(), *bar.columns[2:])
        bar.update(task, completed=done, total=total)
