"""Objects that processes left which were killed while they tried whether a place can be written."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import chain

from icefloe.batch.sweep.leftover import Leftover, Reason
from icefloe.storage.clock import store_time
from icefloe.storage.probe import PROBE
from icefloe.storage.store import Store


def old_trials(place: Store, age: timedelta, *, folders: tuple[str, ...] = ()) -> Iterator[Leftover]:
    """The trials in a place that were written longer ago than ``age``, by the clock of its store.

    Args:
        place: a storage or a checkpoint. Its folders are not looked into, because they may hold millions of files.
        age: younger trials may be under way.
        folders: folders of the place that are looked into all the same, with everything below them.

    Raises:
        TerminalError: the place cannot be listed, or not be written.
        TransientError: it did not answer.
    """
    listed = chain(place.list_here(""), *(place.list(folder) for folder in folders))
    trials = [each for each in listed if each.key.rpartition("/")[2].startswith(PROBE)]
    if not trials:
        return
    cutoff = store_time(place) - age
    for stored in trials:
        if stored.modified < cutoff:
            yield Leftover(
                store=place,
                pipeline=None,
                reason=Reason.OLD,
                objects=1,
                size_bytes=stored.size_bytes,
                keys=(stored.key,),
            )
