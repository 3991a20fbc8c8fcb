"""Output for people: tables on standard output, progress on standard error."""

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

from icefloe.redacted_output import outgoing_logs
from icefloe.redaction.hidden import quoted

_PIPED_WIDTH = 200


class ReaderGoneError(Exception):
    """The program that reads standard output has ended, as ``head`` does. No fault of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Both streams of a command.

    Attributes:
        output: tables and sentences; plain, and wide enough to be cut by other programs, when it is piped.
        progress: the work under way; silent unless it is a terminal.
        is_json: nothing but JSON may be printed.
    """

    output: Console
    progress: Console
    is_json: bool = False

    @classmethod
    def of(cls, *, is_json: bool) -> Self:
        """The streams of this process as they are now."""
        is_piped = not sys.stdout.isatty()
        return cls(
            output=Console(file=sys.stdout, width=_PIPED_WIDTH if is_piped else None, highlight=False),
            progress=Console(file=sys.stderr, quiet=is_json or not sys.stderr.isatty()),
            is_json=is_json,
        )

    def under_way(self, what: str) -> AbstractContextManager[object]:
        """Shows a spinner next to the name of the work under way."""
        return self.progress.status(Text(quoted(what)))

    def say(self, text: str) -> None:
        """Prints one line as it is, unless only JSON is wanted."""
        if not self.is_json:
            # Names and errors may hold [brackets], which Rich would take for its own markup.
            with _to_its_reader():
                self.output.print(quoted(text), markup=False, soft_wrap=True)

    def facts(self, rows: Iterable[tuple[str, str]]) -> None:
        """Prints names and values in two columns, unless only JSON is wanted."""
        table = Table.grid(padding=(0, 2))
        for name, value in rows:
            table.add_row(_cell(name), _cell(value))
        self._show(table)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = ()) -> None:
        """Prints a table, unless only JSON is wanted; the columns of ``numbers`` are aligned right."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(_cell, row))
        self._show(table)

    def json(self, document: object) -> None:
        """Prints one JSON object on one line, always."""
        with _to_its_reader():
            self.output.file.write(json.dumps(document) + "\n")
            self.output.file.flush()

    def _show(self, table: Table) -> None:
        if not self.is_json:
            with _to_its_reader():
                self.output.print(table)


def _cell(text: str) -> Text:
    """A cell as it is: whoever asks for a row wants all of it."""
    return Text(quoted(text, cuts=False))


@contextmanager
def _to_its_reader() -> Iterator[None]:
    try:
        yield
    # Rich ends the process by itself, with a code of its own.
    except (BrokenPipeError, SystemExit) as cause:
        raise ReaderGoneError from cause


@contextmanager
def log_to_stderr(*, is_verbose: bool) -> Iterator[None]:
    """Shows warnings, or with ``is_verbose`` every decision; the loggers are restored afterwards."""
    logger = logging.getLogger("icefloe")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(name)s: %(message)s" if is_verbose else "icefloe: %(message)s")
    )
    # Other libraries log too; their text about a request may hold the credentials that opened it.
    filtered = outgoing_logs(handler, *logging.getLogger().handlers, *filter(None, [logging.lastResort]))
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if is_verbose else logging.WARNING)
    logger.propagate = False
    try:
        with filtered:
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
