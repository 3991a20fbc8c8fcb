"""An engine, and the outcome of a task as it brings it back to the driver of its phase."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from icefloe.errors import IcefloeError, TransientError
from icefloe.storage.requests import RequestTotals

_Result = TypeVar("_Result")


class Engine(Protocol):
    """Hands numbers to a function in as many processes or threads as it has."""

    def map(self, function: Callable[[int], _Result], numbers: Sequence[int]) -> list[_Result]:
        """The results, in the order of ``numbers``; begins with the first."""
        ...


class TaskOutcome(NamedTuple):
    """The outcome of one task. Its error travels as a value, because an engine would turn it into text.

    Attributes:
        error: why it failed; None if it did not.
        is_adopted: True if the task found the valid output of another attempt and kept it.
        requests: requests to stores that it made.
    """

    error: IcefloeError | None = None
    is_adopted: bool = False
    requests: RequestTotals = RequestTotals()


def require_success(errors: Iterable[IcefloeError]) -> None:
    """Raises an error if there is one; an error that retrying cannot fix comes first."""
    for error in sorted(errors, key=lambda error: isinstance(error, TransientError)):
        raise error
