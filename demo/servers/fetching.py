"""Fetching into the cache: one process at a time, for tests run side by side and all want the same server."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from demo.servers.server_process import CACHE

__all__ = ["fetching"]


@contextmanager
def fetching(name: str) -> Iterator[None]:
    """Waits until no other process fetches the thing of that name; it may be there by then."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
