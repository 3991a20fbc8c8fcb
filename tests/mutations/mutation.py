"""One place in which icefloe can be broken."""

from dataclasses import dataclass
from typing import Final

__all__ = ["HISTORIES", "Mutation", "StaleMutationError"]

HISTORIES: Final = ("tests/histories",)


class StaleMutationError(ValueError):
    """The code that a mutation breaks is not there, or more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A change of the library that some test must notice.

    Attributes:
        name: what is wrong then, a sentence.
        path: of the file, below plugins/icefloe.
        before: code that the file has exactly once.
        after: what it is made.
        suite: what pytest is asked to run; random histories unless those cannot show it.
    """

    name: str
    path: str
    before: str
    after: str
    suite: tuple[str, ...] = HISTORIES

    def broken(self, source: str) -> str:
        """The file's text with the mutation.

        Raises:
            StaleMutationError: the text does not have the code exactly once.
        """
        count = source.count(self.before)
        if count != 1:
            raise StaleMutationError(
                f"{self.path} has the code that {self.name!r} breaks {count} times, not once: write the mutation anew"
            )
        return source.replace(self.before, self.after)
