"""Distribution of sizes and times over the tasks of a phase, which shows skew."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import ConfigDict

from icefloe.documents import STRICT

_EXTREMES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """One of the largest values, and the number of its task."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    number: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Spread of some tasks' values. A quartile is the value of a task, the lower one if it falls between two.

    Attributes:
        minimum: the smallest value; the quartiles and the maximum follow in order.
        largest: the few largest values, the largest first.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    minimum: float
    p25: float
    median: float
    p75: float
    maximum: float
    largest: tuple[Extreme, ...]

    @classmethod
    def of(cls, values: Mapping[int, float]) -> "Distribution | None":
        """The distribution of values by task number; None if there are no values.

        >>> spread = Distribution.of({0: 10, 1: 900, 2: 30, 3: 20, 4: 40})
        >>> spread.minimum, spread.p25, spread.median, spread.p75, spread.maximum
        (10, 20, 30, 40, 900)
        >>> spread.largest[0]
        Extreme(number=1, value=900)
        """
        if not values:
            return None
        ascending = sorted(values.values())
        largest = sorted(values.items(), key=lambda item: (-item[1], item[0]))[:_EXTREMES]
        return cls(
            minimum=ascending[0],
            p25=_quartile(ascending, 1),
            median=_quartile(ascending, 2),
            p75=_quartile(ascending, 3),
            maximum=ascending[-1],
            largest=tuple(Extreme(number=number, value=value) for number, value in largest),
        )


def _quartile(ascending: Sequence[float], quarters: int) -> float:
    return ascending[(len(ascending) - 1) * quarters // 4]
