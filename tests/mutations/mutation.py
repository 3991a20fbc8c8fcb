"""One way in which icefloe can be broken."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["HISTORIES", "Edit", "Mutation", "StaleMutationError"]

HISTORIES: Final = ("tests/histories",)


class StaleMutationError(ValueError):
    """The code that a mutation breaks is not there, or more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change of one place.

    Attributes:
        path: of the file, below plugins/icefloe.
        before: code that the file has exactly once.
        after: what it is made.
    """

    path: str
    before: str
    after: str

    def made(self, source: str, why: str) -> str:
        """The file's text after the change.

        Raises:
            StaleMutationError: the text does not have the code exactly once.
        """
        count = source.count(self.before)
        if count != 1:
            raise StaleMutationError(
                f"{self.path} has the code that {why!r} breaks {count} times, not once: write the mutation anew"
            )
        return source.replace(self.before, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A change of the library that some test must notice.

    Attributes:
        name: what is wrong then, a sentence.
        path: as for `Edit`.
        before: as for `Edit`.
        after: as for `Edit`.
        further: edits of other places, where two guards hold the same and both must be off to show anything.
        suite: what pytest is asked to run; random histories unless those cannot show it.
    """

    name: str
    path: str
    before: str
    after: str
    further: tuple[Edit, ...] = ()
    suite: tuple[str, ...] = HISTORIES

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Every change, each of another file."""
        return (Edit(path=self.path, before=self.before, after=self.after), *self.further)

    def broken(self, sources: Mapping[str, str]) -> dict[str, str]:
        """The texts of its files with the mutation, by path.

        Raises:
            StaleMutationError: a text does not have the code exactly once.
        """
        return {edit.path: edit.made(sources[edit.path], self.name) for edit in self.edits}
