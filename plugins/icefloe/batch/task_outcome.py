"""The outcome of a task, as an engine brings it back to the driver of its phase."""

from collections.abc import Iterable
from typing import NamedTuple

from icefloe.errors import IcefloeError, TransientError
from icefloe.storage.requests import RequestTotals


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
