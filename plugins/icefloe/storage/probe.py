"""Probing a store before anything depends on it."""

import os
import uuid
from contextlib import suppress
from typing import Final

from icefloe.errors import IcefloeError, TerminalError
from icefloe.patience import answer_within, brief_seconds, patience_seconds
from icefloe.storage.store import Store

__all__ = ["PROBE", "probe"]

PROBE: Final = "_probe-"
"""First part of a key that is only tried. If a killed run leaves it in a sink, Spark and Arrow do not read it as data,
because of how its name begins."""
_WAY_OUT: Final = "or set coordination to a table of DynamoDB"


def probe(store: Store, *, way_out: str = _WAY_OUT) -> None:
    """Proves that a place can be written and honours create-if-absent; leaves no object behind.

    Args:
        store: the place. If a table coordinates it, both are tried.
        way_out: advice for a place that ignores create-if-absent.

    Raises:
        TerminalError: it cannot be written, or a second create of one key succeeded.
        TransientError: it did not answer.
    """
    key = f"{PROBE}{uuid.uuid4().hex}"
    put_key = f"{key}-put"
    keys = [key, put_key] if store.puts_elsewhere else [key]
    try:
        store.create(key, b"first")
        if store.create(key, b"second") or store.get(key) != b"first":
            raise TerminalError(
                f"the store {store.url} ignores create-if-absent, which keeps two runs apart: a second create of one "
                f"key succeeded; use local disk, S3, GCS, Azure or a service whose conditional puts work, {way_out}",
                url=store.url,
            )
        if store.puts_elsewhere:
            store.put(put_key, b"put")
    except IcefloeError:
        # The user must read the first error, and soon: a store that lies may not delete either.
        with suppress(IcefloeError, TimeoutError):
            answer_within(brief_seconds(patience_seconds(os.environ)), lambda: store.delete(keys))
        raise
    store.delete(keys)
