"""Ways that are measured in turns, because the machine has other things to do: a noisy moment strikes all alike."""

from collections.abc import Callable, Mapping
from time import process_time
from typing import TypeVar

__all__ = ["cpu_of", "in_turns"]

Result = TypeVar("Result")


def in_turns(ways: Mapping[str, Callable[[], Result]], *, turns: int) -> dict[str, list[Result]]:
    """The results of each way, one a turn.

    >>> in_turns({"one": lambda: 1, "two": lambda: 2}, turns=2)
    {'one': [1, 1], 'two': [2, 2]}
    """
    found: dict[str, list[Result]] = {way: [] for way in ways}
    for _ in range(turns):
        for way, measure in ways.items():
            found[way].append(measure())
    return found


def cpu_of(function: Callable[[], Result]) -> tuple[float, Result]:
    """CPU seconds of this process in a call, and its result."""
    started = process_time()
    result = function()
    return process_time() - started, result
