"""The clocks of the machines that actors run on: hours apart, as no decision may depend on them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta, tzinfo
from threading import current_thread
from typing import Final, Self
from unittest.mock import patch

from icefloe import units
from icefloe.batch.deliver import commit_batch
from simulation.scheduler import THREAD_PREFIX

__all__ = ["HOURS", "with_clocks"]

HOURS: Final = (-2, 0, 0, 2)
"""Hours by which a clock is ahead of the store's; a scenario draws one for each actor."""
_READERS: Final = (units, commit_batch)


@contextmanager
def with_clocks(now: Callable[[], datetime], hours: Mapping[str, int]) -> Iterator[None]:
    """Gives each actor a clock as long as the context lasts.

    Args:
        now: the clock of the store.
        hours: by the name of an actor; the clock of any other is the store's.
    """

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            ahead = hours.get(current_thread().name.removeprefix(THREAD_PREFIX), 0)
            return cls.fromisoformat((now() + timedelta(hours=ahead)).astimezone(tz).isoformat())

    with ExitStack() as stack:
        for module in _READERS:
            stack.enter_context(patch.object(module, "datetime", Clock))
        yield
