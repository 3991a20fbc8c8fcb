"""Output for people: tables on standard output, progress on standard error."""

import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

from icefloe.errors import UsageError
from icefloe.redacted_output import outgoing_logs
from icefloe.redaction.hidden import quoted
from icefloe.units import format_bytes

_PIPED_WIDTH = 200


class ReaderGoneError(Exception):
    """The reader of standard output has ended, as ``head`` does. No fault of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Both streams of a command."""

    output: Console  # tables and sentences; plain and wide when piped
    progress: Console  # the work under way; silent unless it is a terminal
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

    def facts(self, document: Mapping[str, Any]) -> None:
        """Prints the single values of a document in two columns, then its notes and warnings."""
        table = Table.grid(padding=(0, 2))
        for name, text in _facts(document):
            table.add_row(_cell(name), _cell(text))
        if table.rows:
            self._show(table)
        for key in _REMARKS:
            for remark in document.get(key, ()):
                self.say(f"{key.removesuffix('s')}: {remark}")

    def table(self, rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> None:
        """Prints the values of some keys, a row for each document; none without documents."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for key in keys:
            is_text = any(isinstance(row.get(key), str | Mapping) for row in rows)
            table.add_column(_cell(_words(key)), justify="left" if is_text else "right", overflow="fold")
        for row in rows:
            table.add_row(*(_cell(_text(key, row.get(key))) for key in keys))
        if rows:
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


_REMARKS: Final = ("notes", "warnings")
_UNNAMED: Final = ("batch", "counts")


def _facts(document: Mapping[str, Any], *, above: str = "") -> Iterator[tuple[str, str]]:
    """The single values of a document, a nested one behind the name of its mapping."""
    for key, value in document.items():
        name = f"{above} {_words(key)}".strip()
        if isinstance(value, Mapping):
            yield from _facts(value, above=above if key in _UNNAMED else name)
        elif not isinstance(value, list | tuple):
            yield name, _text(name, value)
        elif key not in _REMARKS and value and all(isinstance(each, str) for each in value):
            yield name, ", ".join(value)


def _words(key: str) -> str:
    return key.replace("_", " ")


def _text(name: str, value: object) -> str:
    """A value with the unit that its name says.

    >>> _text("bytes_read", 2048), _text("seconds", 0.0421), _text("rows", 12345), _text("batch", 12345)
    ('2.0 KiB', '42 ms', '12,345', '12345')
    """
    words = _words(name).split()
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return json.dumps(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or words[-1] in ("batch", "number"):
        return str(value)
    if "seconds" in words:
        return _seconds_text(value)
    return format_bytes(value) if "bytes" in words else f"{value:,}"


def _seconds_text(seconds: float) -> str:
    """A duration for people.

    >>> _seconds_text(0.0421), _seconds_text(4.2), _seconds_text(75), _seconds_text(7325)
    ('42 ms', '4.20 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"


def is_agreed(question: str, *, yes: bool) -> bool:
    """True if the user agrees on the terminal, or beforehand by ``--yes``."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("nothing was changed, because there is no terminal to ask on: add --yes, or --dry-run to look")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
