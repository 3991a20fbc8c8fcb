"""A text of a pipeline file with its ``${NAME}`` resolved, next to the text as it is written, which errors quote."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

__all__ = ["ExpandedText"]


REFERENCE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
"""A variable, whose name is the first group; ``$${``, which writes ``${``; or a ``${`` without a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandedText:
    """The text that counts, and the text that errors may quote: values of the environment may be secret.

    Attributes:
        text: expanded.
        written: as it is in the file.
    """

    text: str
    written: str

    @classmethod
    def of(cls, text: str, written: str | None) -> Self:
        """The two forms of a text; ``written`` is None if nothing was expanded."""
        return cls(text=text, written=text if written is None else written)

    def says(self, part: str) -> bool:
        """True if a value in the text is in the file too, so that an error may quote it.

        >>> given = ExpandedText(text="a = 'x' or b = True", written="a = '${A}' or b = true")
        >>> given.says("x"), given.says("True")
        (False, True)
        """
        written = REFERENCE.sub(" ", self.written).lower()
        return self.text == self.written or any(
            form in written for form in (part.lower(), part.lower().replace("'", "''"))
        )

    @property
    def references(self) -> str:
        """The variables in it, for people.

        >>> ExpandedText(text="a = 'x' or b = 'y'", written="a = '${A}' or b = '${B}'").references
        '${A} or ${B}'
        """
        return " or ".join(dict.fromkeys(match[0] for match in REFERENCE.finditer(self.written) if match[1]))

    def written_place(self, place: int) -> int:
        """Position in the file of a position in the text; inside a variable's value, the start of its reference.

        >>> given = ExpandedText(text="a = 'O'Brien' or", written="a = '${NAME}' or")
        >>> given.written_place(7), given.written_place(16)
        (5, 16)
        """
        if self.text == self.written:
            return place
        found = 0
        for start, written_start, length in self._kept():
            if place < start:
                break
            found = written_start + min(place - start, length)
        return found

    def _kept(self) -> Iterator[tuple[int, int, int]]:
        """The pieces of the file that nothing replaced: position in the text, position in the file, length.

        If a piece occurs inside a value too, its first occurrence is taken. The text after the last reference is
        counted from the end.
        """
        #   in the file   a = '${NAME}' or
        #   expanded      a = 'x' or           pieces (0, 0, 5) and (6, 12, 4)
        start = written_start = 0
        matches = list(REFERENCE.finditer(self.written))
        for match in matches:
            piece = self.written[written_start : match.start()]
            start = max(self.text.find(piece, start), start)
            yield start, written_start, len(piece)
            start, written_start = start + len(piece), match.end()
            # The reference is $${, which the text has as ${.
            if not match[1]:
                yield start, match.start() + 1, 2
                start += 2
        rest = self.written[written_start:]
        yield max(len(self.text) - len(rest), start), written_start, len(rest)
