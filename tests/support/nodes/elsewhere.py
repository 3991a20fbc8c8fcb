"""Engines that read map outputs on the other machine, so that the first one's node is needed."""

from collections.abc import Callable, Sequence
from typing import Any

from support.nodes.machines import SHORT, TwoMachines

__all__ = ["Elsewhere", "Struck"]


class Elsewhere:
    """Runs all tasks on the second machine, which reads its own outputs without its node, and counts the phases."""

    def __init__(self, machines: TwoMachines, *, patience: float = 60.0) -> None:
        self._machines, self._patience = machines, patience
        self.phases = 0

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        self.phases += 1
        odd = [2 * number + 1 for number in numbers]
        return self._machines.map(_On(function), odd, patience=self._patience)


class _On:
    """A function of the number before `Elsewhere` made it odd."""

    def __init__(self, function: Callable[[int], Any]) -> None:
        self._function = function

    def __call__(self, number: int) -> Any:
        return self._function(number // 2)


class Struck(Elsewhere):
    """Strikes between two tasks of the first phase."""

    def __init__(self, machines: TwoMachines, *, after: int, strike: Callable[[], object]) -> None:
        super().__init__(machines, patience=SHORT)
        self._after, self._strike = after, strike

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        if self.phases:
            return super().map(function, numbers)
        first = super().map(function, numbers[: self._after])
        self._strike()
        return [*first, *super().map(function, numbers[self._after :])]
