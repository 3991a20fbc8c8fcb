"""The identity of rows, as records keep it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from pydantic import ConfigDict

from icefloe.documents import STRICT

__all__ = ["Identity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of rows: if it is equal, two rows are the same row. It is chosen once, when a pipeline starts.

    Attributes:
        policy: ``pipeline`` (its identifier_columns), ``table`` (its identifier fields), ``row_id`` (the row ids of V3
            tables) or ``none``.
        columns: dotted column names; empty exactly when the policy is ``row_id`` or ``none``.
        field_ids: field ids of the columns. The policy ``table`` follows them when columns are renamed. For
            ``pipeline`` they show that a name is another column now.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    policy: Literal["pipeline", "table", "row_id", "none"]
    columns: tuple[str, ...] = ()
    field_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an identity whose policy and columns contradict each other."""
        if (self.policy in ("row_id", "none")) == bool(self.columns):
            raise ValueError(f"an identity of policy {self.policy} cannot have the columns {list(self.columns)}")

    def named_by(self, name_of: Callable[[int], str | None]) -> "Identity":
        """This identity by the names that its columns have now, if it follows them and all are there.

        Args:
            name_of: the name of a column by its field id; None: it was dropped.
        """
        if self.policy != "table":
            return self
        names = tuple(name_of(field_id) for field_id in self.field_ids)
        present = tuple(name for name in names if name is not None)
        return replace(self, columns=present) if present and len(present) == len(names) else self

    def named_as(self, other: "Identity") -> "Identity":
        """This identity, or the other one if both are the same and only columns were renamed.

        >>> then = Identity(policy="table", columns=("id",), field_ids=(1,))
        >>> then.named_as(Identity(policy="table", columns=("order_id",), field_ids=(1,))).columns
        ('order_id',)
        """
        return other if (self.policy, self.field_ids) == (other.policy, other.field_ids) else self
