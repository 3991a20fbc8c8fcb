"""Smaller schedules that still break a promise: switches and faults that do not matter are left out."""

from collections.abc import Callable, Mapping

from simulation.decisions import Decision, Place

__all__ = ["shrink_decisions"]

Decided = Mapping[Place, Decision]


def shrink_decisions(decisions: Decided, is_wrong: Callable[[Decided], bool], *, attempts: int = 300) -> Decided:
    """The fewest decisions found with which a schedule still goes wrong.

    Leaves out all, then halves, and so on to single decisions, as delta debugging does.

    Args:
        decisions: go wrong.
        is_wrong: runs a schedule with fewer decisions.
        attempts: number of schedules to run at most.

    >>> from simulation.decisions import Fault
    >>> decided = {("a", number): Fault.LOST for number in range(20)}
    >>> sorted(shrink_decisions(decided, lambda few: {("a", 3), ("a", 17)} <= few.keys()))
    [('a', 3), ('a', 17)]
    """
    places, piece = list(decisions), len(decisions)
    while piece > 0 and attempts > 0:
        for start in range(0, len(places), piece):
            attempts -= 1
            kept = places[:start] + places[start + piece :]
            if is_wrong({place: decisions[place] for place in kept}):
                places = kept
                break
        else:
            piece //= 2
    return {place: decisions[place] for place in places}
