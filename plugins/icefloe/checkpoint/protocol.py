"""The life of a batch as one table, which knows no I/O.

Each act creates one document, only if it is absent: of several runs that do the same act one does it, and the others go
on from there. So the documents that exist tell the state, and a killed run leaves a state of this table.

docs/developers/protocol.md shows the table, and each schedule of the simulation is held to it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["BatchState"]


class Act(StrEnum):
    """An act on a batch; the value is the document that it creates."""

    OPEN = "offsets/<batch>.json"
    PROVE = "batch=<batch>/_manifest.json"
    BEGIN = "deliveries/begun.json"
    ARRIVE = "delivery.json"
    CLOSE = "batch=<batch>/_manifest.json of an empty range"
    RECORD = "commits/<batch>.json: delivered"
    GIVE_UP = "commits/<batch>.json: abandoned, at the beginning"
    END = "commits/<batch>.json: abandoned, cursor_set or reset"


class BatchState(StrEnum):
    """The state of a batch; the value says what that means for its changes.

    A sink of files has the changes as soon as they are proven: then `Act.PROVE` leads to ``ARRIVED``.
    """

    FREE = "the number is not used"
    OPEN = "nobody has seen any"
    PROVEN = "proven, on its way to the sink"
    DELIVERING = "the sink may have a part"
    ARRIVED = "the sink has all of it"
    CLOSED = "nobody can deliver it any more"
    ENDED = "final"

    @classmethod
    def of_open(
        cls, *, is_passed_on: bool, is_whole: bool, is_closed: bool, has_begun: bool, has_arrived: bool
    ) -> "BatchState":
        """The state of a batch that is opened and has no commit record, by the other documents.

        Args:
            is_passed_on: False: readers read the proven files themselves.
            is_closed: its manifest is that of an empty range.
        """
        if is_whole and not is_closed and (has_arrived or not is_passed_on):
            return cls.ARRIVED
        if has_begun:
            return cls.DELIVERING
        if is_closed:
            return cls.CLOSED
        return cls.PROVEN if is_whole else cls.OPEN

    def allows(self, act: Act) -> bool:
        """True if the act leads on from here."""
        return act in TRANSITIONS[self]

    @property
    def can_be_recorded(self) -> bool:
        """True if only the record of a delivered batch is missing."""
        return self.allows(Act.RECORD)

    @property
    def can_be_given_up(self) -> bool:
        """True if the sink may have a part of the batch, and only a reset ends it without the rest."""
        return self.allows(Act.GIVE_UP) and not self.can_be_recorded

    def after(self, act: Act, *, is_passed_on: bool) -> "BatchState":
        """The state to which an act leads; `ValueError` if it must not happen in this one."""
        if not self.allows(act):
            raise ValueError(f"{act} must not be created while a batch is {self.name}: {self}")
        found = TRANSITIONS[self][act]
        return BatchState.ARRIVED if found is BatchState.PROVEN and not is_passed_on else found


TRANSITIONS: Final[Mapping[BatchState, Mapping[Act, BatchState]]] = MappingProxyType(
    {
        BatchState.FREE: {Act.OPEN: BatchState.OPEN},
        BatchState.OPEN: {Act.PROVE: BatchState.PROVEN, Act.CLOSE: BatchState.CLOSED},
        BatchState.PROVEN: {Act.BEGIN: BatchState.DELIVERING, Act.GIVE_UP: BatchState.ENDED},
        BatchState.DELIVERING: {Act.ARRIVE: BatchState.ARRIVED, Act.GIVE_UP: BatchState.ENDED},
        # A reset may have looked before the rest arrived: its record is as good, because a load comes after it.
        BatchState.ARRIVED: {Act.RECORD: BatchState.ENDED, Act.GIVE_UP: BatchState.ENDED},
        BatchState.CLOSED: {Act.END: BatchState.ENDED},
        BatchState.ENDED: {},
    }
)
"""Acts and the states to which they lead. What is not here must not happen."""
