"""Progress: a spinner on a terminal, otherwise a line for each step that takes longer than two seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from time import monotonic
from typing import Final

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

__all__ = ["Progress"]

_LONG_SECONDS: Final = 2.0


class Progress:
    """Prints to a console."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, text: str = "") -> None:
        """One line as it is, never wrapped or coloured."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Something that takes a moment; when it is done, a line says how long it took."""
        started = monotonic()
        with self.under_way(what):
            yield
        self.say(f"{what}: {monotonic() - started:.1f} s")

    @contextmanager
    def under_way(self, what: str) -> Iterator[Callable[[str], None]]:
        """Something that takes a while; what is yielded is told of each part of it as it begins."""
        if self.console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
            with Bar(
                *columns, console=self.console, transient=True, redirect_stdout=False, redirect_stderr=False
            ) as bar:
                task = bar.add_task(what)
                yield lambda part: bar.update(task, description=f"{what}: {part}")
        else:
            lines = _LongParts(self.say)
            lines.begin(what)
            try:
                yield lambda part: lines.begin(f"{what}: {part}")
            finally:
                lines.end()


class _LongParts:
    """Says what is under way once it has taken two seconds."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._timer: Timer | None = None

    def begin(self, what: str) -> None:
        self.end()
        self._timer = Timer(_LONG_SECONDS, self._say, [f"  {what} ..."])
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
