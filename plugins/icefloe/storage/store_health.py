"""Facts that a process knows of a store: that it has just not answered, and what it has shown that it can do."""

from functools import cache
from time import monotonic


class StoreHealth:
    """Begins when a store was waited for in vain, ends when it answers or after a while; for all threads.

    Attributes:
        was_met: the store's certificate was tried by a request of its own.
        takes_conditions: the store has answered a put with a condition, and not that it does not implement it.
    """

    def __init__(self) -> None:
        self.was_met = False
        self.takes_conditions = False
        self._until = 0.0

    @property
    def is_recent(self) -> bool:
        """True if it has begun and not ended."""
        return monotonic() < self._until

    def begin(self, seconds: float) -> None:
        """Begins, for a while."""
        self._until = monotonic() + seconds

    def end(self) -> None:
        """Ends: the store answered."""
        self._until = 0.0


@cache
def health_of_store(url: str, endpoints: tuple[str, ...]) -> StoreHealth:
    """The silence of a store in this process, which opens the same store many times.

    Args:
        url: of the store's root.
        endpoints: the addresses of its service, if they are set.
    """
    del url, endpoints
    return StoreHealth()
