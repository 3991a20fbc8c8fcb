"""Probes of a store: whether it keeps two runs apart, and its time."""

import os
import uuid
from contextlib import suppress
from datetime import datetime
from itertools import compress
from threading import Barrier, BrokenBarrierError
from typing import Final

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.patience import answer_within, brief_seconds, patience_seconds
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import Store

__all__ = ["CLOCK_FOLDER", "PROBE", "probe", "store_time"]

PROBE: Final = "_probe-"
"""First part of a key that is only tried. If a killed run leaves it in a sink, Spark and Arrow do not read it as data,
because of how its name begins."""
_AT_ONCE: Final = 16
_LONGEST_START_SECONDS: Final = 5.0
_WAY_OUT: Final = "or set coordination to a table of DynamoDB"


def probe(store: Store, *, way_out: str = _WAY_OUT, is_new: bool = True) -> None:
    """Proves that a place, and its table, can be written and honour create-if-absent; leaves nothing.

    Args:
        is_new: False for a place tried before: saves the requests of creates at once.
    """
    key = f"{PROBE}{uuid.uuid4().hex}"
    put_key, race_key = f"{key}-put", f"{key}-race"
    races = is_new and store.requests_at_once > 1
    keys = [key, *([put_key] if store.created_in else []), *([race_key] if races else [])]
    try:
        store.create(key, b"first")
        is_kept = not store.create(key, b"second") and store.get(key) == b"first"
        if not is_kept or (races and not _one_wins(store, race_key)):
            raise TerminalError(
                f"the store {store.url} ignores create-if-absent, which keeps two runs apart: a second create of one "
                f"key succeeded; use local disk, S3, GCS, Azure or a service whose conditional puts work, {way_out}",
                url=store.url,
            )
        if store.created_in:
            store.put(put_key, b"put")
    except IcefloeError:
        # The user must read the first error, and soon: a store that lies may not delete either.
        with suppress(IcefloeError, TimeoutError):
            answer_within(brief_seconds(patience_seconds(os.environ)), lambda: store.delete(keys))
        raise
    store.delete(keys)


def _one_wins(store: Store, key: str) -> bool:
    """Several win at a store that looks first and then writes."""
    values = [f"{each}".encode() for each in range(_AT_ONCE)]
    begin = Barrier(_AT_ONCE, timeout=_LONGEST_START_SECONDS)

    def create(value: bytes) -> bool:
        # The system may refuse a thread after others have begun.
        with suppress(BrokenBarrierError):
            begin.wait()
        return store.create(key, value)

    won = list(compress(values, map_parallel(create, values, at_once=_AT_ONCE)))
    # A create whose first answer was lost has won and does not know it.
    return len(won) <= 1 and store.get(key) in (won or values)


CLOCK_FOLDER: Final = "_clock.probes"
"""No pipeline can have this name, because of its dot."""


def store_time(store: Store) -> datetime:
    """The present time of a store: an object is written and deleted at once.

    This machine's clock may be wrong, and shared folders have a time of their own.
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
