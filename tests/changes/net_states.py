"""Net changes told from the states of a table, in plain Python: the reference for ``changes: net``."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

__all__ = ["NetChange", "net_of_states"]

State = Counter[Any]


@dataclass(frozen=True, kw_only=True)
class NetChange:
    """The net change of one identity."""

    identity: Hashable
    change_ordinal: int
    deletes: State
    inserts: State

    @property
    def pairs(self) -> int:
        """The number of updates, for identities of columns."""
        return min(self.deletes.total(), self.inserts.total())


def net_of_states(
    states: Sequence[State], identity: Callable[[Any], Hashable] = lambda row: row
) -> Iterator[NetChange]:
    """The identities whose first and last state differ; ``states[i]`` and ``states[i + 1]`` are around step i.

    >>> found = net_of_states([Counter("ab"), Counter("bc"), Counter("bcc"), Counter("bc")])
    >>> [(change.identity, change.change_ordinal) for change in found]
    [('a', 0), ('c', 2)]
    """
    histories = [_by_identity(state, identity) for state in states]
    for key in {key: None for history in histories for key in history}:
        history = [states_of[key] for states_of in histories]
        changed = [ordinal for ordinal, (before, after) in enumerate(pairwise(history)) if before != after]
        first, last = history[0], history[-1]
        if first != last:
            yield NetChange(identity=key, change_ordinal=changed[-1], deletes=first - last, inserts=last - first)


def _by_identity(state: State, identity: Callable[[Any], Hashable]) -> dict[Hashable, State]:
    found: dict[Hashable, State] = defaultdict(Counter)
    for row, count in state.items():
        if count:
            found[identity(row)][row] = count
    return found
