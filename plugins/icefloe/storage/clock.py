"""The time by a store's own clock, which also gave its objects their times."""

import uuid
from datetime import datetime
from typing import Final

from icefloe.errors import TransientError
from icefloe.storage.store import Store

__all__ = ["CLOCK_FOLDER", "store_time"]

CLOCK_FOLDER: Final = "_clock.probes"
"""No pipeline can have this name, because of its dot."""


def store_time(store: Store) -> datetime:
    """The present time of a store: it is given an object, which is deleted at once.

    Ages by the clock of this machine would be wrong by as much as the clock is. A folder that another machine shares,
    and a disk whose clock was set back, have a time of their own too.

    Raises:
        TerminalError: the place cannot be written.
        TransientError: it did not answer, or did not list the object.
    """
    key = f"{CLOCK_FOLDER}/{uuid.uuid4().hex}"
    # Put, not created: a table that coordinates the store has a clock of its own.
    store.put(key, b"now")
    try:
        times = [each.modified for each in store.list(CLOCK_FOLDER) if each.key == key]
    finally:
        store.delete([key])
    if not times:
        raise TransientError(f"{store.url} does not list an object that was just written to it; try again", key=key)
    return times[0]
