"""The decisions of a schedule: drawn from a seed, remembered, and taken again from memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final

__all__ = ["END", "Decision", "Decisions", "Drawn", "Fault", "Place", "Remembered", "Switch"]

END: Final = -1
"""In place of the number of an operation: the end of an actor."""

Place = tuple[str, int]
"""Name of an actor and the number of one of its operations, from 1."""


class Fault(StrEnum):
    """A fault of one operation.

    A fault that makes no sense for an operation, such as a stale answer of a write, strikes it as `REFUSED`.
    """

    REFUSED = "refused"
    """503 or 409 until the client gives up: the operation has no effect."""
    LOST = "lost"
    """The operation has its effect, and its answer is lost: the client gives up."""
    RESENT = "resent"
    """A create has its effect, its answer is lost, and the client sends it again: it finds a value, its own."""
    DELAYED = "delayed"
    """The client gives up, and the operation has its effect some operations later."""
    STALE = "stale"
    """A listing shows the past."""
    DAMAGED = "damaged"
    """The store loses a file of a map output, or a part that no manifest names yet, before the operation."""
    KILLED = "killed"
    """The process ends before the operation."""
    KILLED_AFTER = "killed after"
    """The process ends after the operation, before it sees the answer."""


@dataclass(frozen=True, slots=True)
class Switch:
    """The actor is stopped before its operation, and another one goes on."""

    to: str

    def __str__(self) -> str:
        """The decision in words, for people."""
        return f"stopped, {self.to} goes on"


Decision = Switch | Fault


class Decisions:
    """Says what happens at a place; by itself nothing does."""

    def at(
        self,
        actor: str,  # noqa: ARG002 - for subclasses
        operation: int,  # noqa: ARG002
        others: Sequence[str],  # noqa: ARG002
        *,
        is_outward: bool = False,  # noqa: ARG002
    ) -> Decision | None:
        """The decision at an operation of an actor, or at its `END`.

        Args:
            actor: name of the actor.
            operation: number of the operation.
            others: names of the other actors that have not ended.
            is_outward: True if others see the operation outside of icefloe's own folders.
        """
        return None


@dataclass(slots=True, kw_only=True)
class Drawn(Decisions):
    """Decisions that are drawn from a seed, each one remembered in ``taken``.

    Attributes:
        random: source of the decisions.
        switches: share of the operations at which an actor is stopped.
        faults: share of the operations that a fault strikes.
        asleep: actors that are stopped until all others have ended or sleep too, as a zombie is.
    """

    random: Random
    switches: float
    faults: float
    most_faults: int
    taken: dict[Place, Decision] = field(default_factory=dict)
    asleep: set[str] = field(default_factory=set)

    def at(self, actor: str, operation: int, others: Sequence[str], *, is_outward: bool = False) -> Decision | None:
        """See `Decisions`."""
        self.asleep.discard(actor)
        drawn = self.random.random()
        decision: Decision | None = None
        # A run that is stopped as it begins comes back with an old view of everything. A run that delivers has few
        # operations, and each of them matters.
        switches = _OFTEN * self.switches if operation <= _EARLY or is_outward else self.switches
        if others and (drawn < switches or operation == END):
            awake = [other for other in others if other not in self.asleep]
            decision = Switch(self.random.choice(awake or others))
            if awake and self.random.random() < (_SLEEPING if is_outward else _SLEEPING / 4):
                self.asleep.add(actor)
        elif operation != END and 1 - drawn < self.faults and self.most_faults:
            self.most_faults -= 1
            decision = self.random.choice(_FAULTS)
        if decision is not None:
            self.taken[actor, operation] = decision
        return decision


_EARLY: Final = 4
_OFTEN: Final = 4
_SLEEPING: Final = 0.4
_FAULTS: Final = (*Fault, Fault.DAMAGED, Fault.DAMAGED)


@dataclass(slots=True, frozen=True)
class Remembered(Decisions):
    """Decisions of an earlier run, or some of them."""

    taken: Mapping[Place, Decision]

    def at(
        self,
        actor: str,
        operation: int,
        others: Sequence[str],
        *,
        is_outward: bool = False,  # noqa: ARG002 - it has had its effect
    ) -> Decision | None:
        """See `Decisions`."""
        decision = self.taken.get((actor, operation))
        return None if isinstance(decision, Switch) and decision.to not in others else decision
