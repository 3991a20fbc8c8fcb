"""Probing a store before anything depends on it."""

import uuid

from icefloe.errors import TerminalError
from icefloe.storage.store import Store

__all__ = ["probe"]


def probe(store: Store) -> None:
    """Proves that a place can be written and honours create-if-absent; leaves nothing behind.

    Raises:
        TerminalError: it cannot be written, or a second create of one key succeeded.
    """
    key = f"_probe-{uuid.uuid4().hex}"
    try:
        created = [store.create(key, text) for text in (b"first", b"second")]
        kept = store.get(key)
    finally:
        store.delete([key])
    if created != [True, False] or kept != b"first":
        raise TerminalError(
            f"the store {store.url} ignores create-if-absent, by which icefloe keeps two runs apart; use one that "
            "honours it (S3, GCS, Azure, local disk)",
            url=store.url,
        )
