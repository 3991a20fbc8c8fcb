"""Which cases only a release must pass, and which only a soak tries."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest

__all__ = ["EVERY_PLACE", "WALK", "extended", "places", "soak", "stride", "until_missed", "walk"]

EVERY_PLACE = "ICEFLOE_EVERY_PLACE"
"""The environment variable that makes walks try at least every n-th place of a run; 1 is each, which takes hours."""
WALK = (pytest.mark.soak, pytest.mark.walk)
"""The marks of a case that tries the places of a run one after another: `make test` tries a few of them by number."""
_BEGINNINGS = 11
"""The shortest runs that are walked have as many places."""
_MISSES = 3
"""A walk at every place missed one in the middle, and two in a row close to its end."""


def stride(step: int) -> int:
    """Of how many places one is tried: of so many, or of fewer if the environment says so."""
    return min(step, int(os.environ.get(EVERY_PLACE) or step))


def places(step: int, turn: int = 0) -> Iterator[int]:
    """The places of a run to try, without end: one of so many, from one of the first on.

    Args:
        step: of how many places one is tried, unless the environment says fewer.
        turn: of a case among those that walk the same code: each begins elsewhere, so that together they try more.
    """
    step = stride(step)
    return count(1 + 5 * turn % min(step, _BEGINNINGS), step)


def until_missed(meetings: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    """The meetings at the places of a walk, to the first of three places in a row that no run comes to.

    How many operations runs have that meet depends on which is first, so one place that they miss is not the end.

    >>> list(until_missed([["put a"], [], ["put b"], [], [], [], ["put c"]]))
    [['put a'], [], ['put b'], [], []]
    """
    misses = 0
    for meeting in meetings:
        misses = 0 if meeting else misses + 1
        if misses == _MISSES:
            return
        yield meeting


def extended(*values: Any) -> Any:
    """A case that `make extended` runs and `make test` leaves out, because others hold the same in short.

    >>> extended(2, "orc").values
    (2, 'orc')
    """
    return pytest.param(*values, marks=pytest.mark.extended)


def walk(*values: Any, name: str | None = None) -> Any:
    """A case that tries the places of a run one after another, in `make soak`."""
    return pytest.param(*values, marks=WALK, id=name)


def soak(*values: Any) -> Any:
    """A case that only `make soak` runs, because others of its kind are in `make extended`."""
    return pytest.param(*values, marks=pytest.mark.soak)
