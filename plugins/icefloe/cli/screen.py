"""Output for people: tables on standard output, progress on standard error."""

import json
import logging
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

from icefloe.errors import UsageError
from icefloe.redacted_output import outgoing_logs
from icefloe.redaction.hidden import quoted

_PIPED_WIDTH = 200


class Fact(NamedTuple):
    """A name and a text for people, a key and a value for programs; left out if empty."""

    name: str
    text: str
    key: str = ""
    value: object = None


def answer_of(facts: Iterable[Fact]) -> dict[str, object]:
    """The facts for programs."""
    return {fact.key: fact.value for fact in facts if fact.key}


class ReaderGoneError(Exception):
    """The reader of standard output has ended, as ``head`` does. No fault of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Both streams of a command.

    Attributes:
        output: tables and sentences; plain and wide when piped.
        progress: the work under way; silent unless it is a terminal.
    """

    output: Console
    progress: Console
    is_json: bool = False

    @classmethod
    def of(cls, *, is_json: bool) -> Self:
        """The present streams of this process."""
        is_piped = not sys.stdout.isatty()
        return cls(
            output=Console(file=sys.stdout, width=_PIPED_WIDTH if is_piped else None, highlight=False),
            progress=Console(file=sys.stderr, quiet=is_json or not sys.stderr.isatty()),
            is_json=is_json,
        )

    def under_way(self, what: str) -> AbstractContextManager[object]:
        """Shows a spinner next to the work under way."""
        return self.progress.status(Text(quoted(what)))

    def say(self, text: str) -> None:
        """Prints one line as it is, unless only JSON is wanted."""
        if not self.is_json:
            # Names and errors may hold [brackets], which Rich would take for its own markup.
            with _to_its_reader():
                self.output.print(quoted(text), markup=False, soft_wrap=True)

    def facts(self, rows: Iterable[tuple[str, str] | Fact]) -> None:
        """Prints two columns, unless only JSON is wanted."""
        table = Table.grid(padding=(0, 2))
        for name, value, *_ in rows:
            if name:
                table.add_row(_cell(name), _cell(value))
        self._show(table)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str] = ()) -> None:
        """Prints a table, unless only JSON is wanted; the columns ``numbers`` are aligned right."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(_cell, row))
        self._show(table)

    def answer(self, document: object) -> None:
        """Prints an answer as JSON, if only JSON is wanted."""
        if self.is_json:
            self.json(document)

    def json(self, document: object) -> None:
        """Prints one JSON object on one line."""
        with _to_its_reader():
            self.output.file.write(json.dumps(document) + "\n")
            self.output.file.flush()

    def _show(self, table: Table) -> None:
        if not self.is_json:
            with _to_its_reader():
                self.output.print(table)


def _cell(text: str) -> Text:
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
    """Shows warnings, or every decision; restores the loggers afterwards."""
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


def seconds_text(seconds: float | None) -> str:
    """A duration for people; a dash if it is not known.

    >>> seconds_text(0.0421), seconds_text(4.2), seconds_text(75), seconds_text(7325), seconds_text(None)
    ('42 ms', '4.20 s', '1 min 15 s', '2 h 2 min', '-')
    """
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"


def batch_text(batch_number: int, backfill_id: str | None) -> str:
    """A batch of a pipeline or a backfill.

    >>> batch_text(0, "start-7-0a1b2c3d")
    '0 of backfill start-7-0a1b2c3d'
    """
    return str(batch_number) if backfill_id is None else f"{batch_number} of backfill {backfill_id}"


def id_text(snapshot_id: int | None) -> str:
    """A snapshot id or a dash."""
    return "-" if snapshot_id is None else str(snapshot_id)


def is_agreed(question: str, *, yes: bool) -> bool:
    """True if the user agrees on the terminal, or beforehand by ``--yes``."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("nothing was changed, because there is no terminal to ask on: add --yes, or --dry-run to look")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
