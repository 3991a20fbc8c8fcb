"""The errors of icefloe: one root, two families, facts as declared fields; texts that they may quote."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Self, dataclass_transform

from icefloe.redaction.hidden import quoted, redacted_foreign

__all__ = [
    "ExpandedText",
    "IcefloeError",
    "NotBuiltError",
    "TerminalError",
    "TransientError",
    "UsageError",
    "about_key",
    "lack_of_memory_named",
    "one_line",
]


_WORDS: Final = ("ERROR_allocation_failed", "Error -4 while", "Allocation error : not enough memory")
"""In which LZ4, zlib and Zstandard say that they got no memory: the class of the error is that of damaged bytes."""

_NO_FACTS: Final = ("sentence", "__notes__")
_LONGEST_NAME: Final = 200
_LONGEST_LINE: Final = 4_000


def _positional(*, kw_only: bool = False) -> Any:
    """The one field that is not given by keyword, for type checkers."""


@dataclass_transform(kw_only_default=True, field_specifiers=(_positional,))
class _DeclaredFacts(Exception):  # noqa: N818 - the part of the root that makes its annotations fields
    """An error whose facts are its classes' annotations, given by keyword."""

    exit_code: ClassVar[int] = 65

    def __init__(self, sentence: str, /, *further: str, **facts: object) -> None:
        # What others named may hold anything: a line break is ours only between the sentences.
        shown = "\n".join(_line(each, facts) for each in (sentence, *further))
        super().__init__(shown)
        self.__dict__.update(facts, sentence=shown)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), *str(self).split("\n"), **self.facts), ()

    @property
    def facts(self) -> Mapping[str, Any]:
        """The given facts, by name."""
        return {name: value for name, value in vars(self).items() if name not in _NO_FACTS}

    def restated(self, sentence: str, /, **more: object) -> Self:
        """This error with the facts in ``more`` added, and another sentence."""
        return type(self)(sentence, **{**self.facts, **more})


class IcefloeError(_DeclaredFacts):
    """One sentence: the fault, its place, what was expected and what to do.

    The facts are the same for programs (``error.snapshot_id``). Classes add their own; here are those that say where an
    error happened.

    Attributes:
        sentence: for the user; one or several, one a line. Secrets are hidden, invisible characters are escapes, and
            long names are cut; the facts are exact.
        url: of a store, a checkpoint, a sink or a batch's folder.
        key: in that store, or of the pipeline file.
        path: of a file, or of a folder.
        line: of the file, counted from 1.
        conn_id: Airflow connection.
    """

    sentence: str = _positional(kw_only=False)
    url: str | None = None
    key: str | None = None
    path: str | None = None
    line: int | None = None
    table: str | None = None
    column: str | None = None
    catalog: str | None = None
    conn_id: str | None = None
    pipeline: str | None = None
    snapshot_id: int | None = None
    batch_number: int | None = None
    map_id: int | None = None


class TerminalError(IcefloeError):
    """Retrying cannot help: the input, the table or the configuration must change.

    Attributes:
        owner: checkpoint whose the sink is; empty: the sink holds something, and nothing says whose it is.
    """

    exit_code = 65
    owner: str | None = None


class TransientError(IcefloeError):
    """The same call may succeed later: a store, a catalog or a worker was not available.

    Attributes:
        is_met_everywhere: True if another machine meets the fault too, in files that all of them read.
    """

    exit_code = 75
    is_met_everywhere: ClassVar[bool] = False


class UsageError(TerminalError):
    """The command was called wrongly."""

    exit_code = 2


class NotBuiltError(TerminalError):
    """A key, type or table feature of the design that this release does not have yet."""


@contextmanager
def about_key(key: str) -> Iterator[None]:
    """Marks errors inside with the key of the pipeline file."""
    try:
        yield
    except TerminalError as error:
        error.key = error.key or key
        raise


@contextmanager
def lack_of_memory_named() -> Iterator[None]:
    """A block in which a codec works: `MemoryError` if the library got no memory; the bytes may be whole."""
    try:
        yield
    except IcefloeError:
        raise  # Understood already, and it may quote a value of the table.
    except Exception as cause:
        if any(words in str(cause) for words in _WORDS):
            raise MemoryError(str(cause)) from cause
        raise


def one_line(cause: BaseException) -> str:
    r"""Text of a foreign error, fit for a sentence of ours: short, without a value of any configuration.

    >>> one_line(ValueError("bad header. \n"))
    'bad header.'
    """
    return _cut(" ".join(redacted_foreign(str(cause)).split()))


def _line(sentence: str, facts: Mapping[str, object]) -> str:
    line = quoted(sentence)
    for name in facts.values():
        # One without blanks was cut as a word.
        if isinstance(name, str) and len(name) > _LONGEST_NAME:
            line = line.replace(quoted(name), _cut(quoted(name)))
    return _cut(line, _LONGEST_LINE)


def _cut(text: str, longest: int = _LONGEST_NAME) -> str:
    return text if len(text) <= longest else f"{text[: longest - 50]}...{text[-47:]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandedText:
    """A text of a pipeline file: as it counts, and as errors may quote it: values of the environment may be secret."""

    text: str
    written: str

    REFERENCE: ClassVar = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
    """A variable, whose name is the first group; ``$${``, which writes ``${``; or a ``${`` without a name."""

    @classmethod
    def of(cls, text: str, written: str | None) -> Self:
        """The two forms of a text; ``written`` is None if nothing was expanded."""
        return cls(text=text, written=text if written is None else written)

    def says(self, part: str) -> bool:
        """True if a value is in the file too, so that an error may quote it.

        >>> given = ExpandedText(text="a = 'x' or b = True", written="a = '${A}' or b = true")
        >>> given.says("x"), given.says("True")
        (False, True)
        """
        written = self.REFERENCE.sub(" ", self.written).lower()
        return self.text == self.written or any(
            form in written for form in (part.lower(), part.lower().replace("'", "''"))
        )

    @property
    def references(self) -> str:
        """The variables in it, for people.

        >>> ExpandedText(text="a = 'x' or b = 'y'", written="a = '${A}' or b = '${B}'").references
        '${A} or ${B}'
        """
        return " or ".join(dict.fromkeys(match[0] for match in self.REFERENCE.finditer(self.written) if match[1]))
