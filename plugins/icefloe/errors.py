"""The errors of icefloe: one root, two families, facts as attributes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from icefloe.redaction.hidden import redacted, redacted_foreign

__all__ = ["IcefloeError", "NotBuiltError", "TerminalError", "TransientError", "UsageError", "about_key", "one_line"]


class IcefloeError(Exception):
    """One sentence: the fault, its place, what was expected and what to do.

    Args:
        sentence: sentence that the user reads; secrets in it are hidden.
        **facts: the same facts for programs, readable as attributes (``error.snapshot_id``).
    """

    exit_code = 65

    def __init__(self, sentence: str, /, **facts: Any) -> None:
        super().__init__(redacted(sentence))
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        try:
            # Not self.facts: an error that is not built yet has none, and looking for it would lead back here, without
            # end.
            return self.__dict__["facts"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} carries no fact {name!r}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), self.facts)

    @property
    def sentence(self) -> str:
        """The sentence that the user reads."""
        return str(self)


class TerminalError(IcefloeError):
    """Retrying cannot help: the input, the table or the configuration must change."""

    exit_code = 65


class TransientError(IcefloeError):
    """The same call may succeed later: a store, a catalog or a worker was not available."""

    exit_code = 75


class UsageError(TerminalError):
    """The command was called wrongly."""

    exit_code = 2


class NotBuiltError(TerminalError):
    """A key, type or table feature that the design names and this release does not have yet."""


@contextmanager
def about_key(key: str) -> Iterator[None]:
    """Marks errors inside with the key of the pipeline file that is their reason.

    Raises:
        TerminalError: the error that was raised, with the fact ``key``.
    """
    try:
        yield
    except TerminalError as error:
        error.facts.setdefault("key", key)
        raise


def one_line(cause: BaseException) -> str:
    r"""Text of an error that is not ours, fit for a sentence of ours: without a value of any configuration.

    >>> one_line(ValueError("bad header. \n"))
    'bad header.'
    """
    return " ".join(redacted_foreign(str(cause)).split())


def _rebuild(kind: type[IcefloeError], sentence: str, facts: dict[str, Any]) -> IcefloeError:
    return kind(sentence, **facts)
