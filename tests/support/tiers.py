"""Which cases only a release must pass."""

import os
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

__all__ = ["EVERY_PLACE", "extended", "places"]

EVERY_PLACE = "ICEFLOE_EVERY_PLACE"
"""The environment variable that makes the tests of a release try each place of a run, which takes an hour."""


def places(step: int, turn: int = 0) -> Iterator[int]:
    """The places of a run to try, without end: one of so many, or from 1 on each if the environment says so.

    Args:
        step: of how many places one is tried.
        turn: of a case among those that walk the same code: each begins elsewhere, so that together they try more.
    """
    return count(1) if os.environ.get(EVERY_PLACE) else count(1 + 5 * turn % step, step)


def extended(*values: Any) -> Any:
    """A case that `make extended` runs and `make test` leaves out, because others hold the same in short.

    >>> extended(2, "orc").values
    (2, 'orc')
    """
    return pytest.param(*values, marks=pytest.mark.extended)
