"""Values of options that other rooms decide by."""

import re
from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias

__all__ = [
    "ChangesOption",
    "CommitGroupsOption",
    "ExpandedText",
    "OutputOption",
    "RollbackOption",
    "SummaryMismatchOption",
]

ChangesOption: TypeAlias = Literal["each", "net"]
"""``each``: the changes of every step. ``net``: the last state of each identity against its first."""

OutputOption: TypeAlias = Literal["each", "net", "upsert", "append_only"]
"""``upsert``: net changes without the rows before updates. ``append_only``: inserts alone, of every step. Both are
computed as ``ChangesOption`` says, proven as a whole, and only then reduced."""

RemovedRowsOption: TypeAlias = Literal["fail", "skip"]
"""If a batch of ``append_only`` removes rows, stop, or leave out every step that does."""

CommitGroupsOption: TypeAlias = Literal["fuse", "split"]
"""``fuse``: the snapshots of one commit are one step. ``split``: each snapshot is a step."""

RollbackOption: TypeAlias = Literal["compensate", "fail"]
"""If a branch left the cursor's snapshot behind, deliver the difference or stop."""

"""``trust``: rows of V3 tables that keep row id and sequence number are taken for copies, and not compared."""

SummaryMismatchOption: TypeAlias = Literal["fail", "warn"]
"""If a batch and the snapshots' summaries disagree, stop or warn."""


REFERENCE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
"""A variable, whose name is the first group; ``$${``, which writes ``${``; or a ``${`` without a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandedText:
    """The text that counts, and the text that errors may quote: values of the environment may be secret."""

    text: str
    written: str

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
