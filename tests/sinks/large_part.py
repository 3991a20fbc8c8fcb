"""A part of more than 64 MiB, and an attempt to write it that is stopped just before it does."""

import random

import pyarrow as pa

from icefloe.sinks.change_files import ChangeFiles
from icefloe.storage.store import Store
from sinks.delivered_changes import message, summary
from support.fakes.stores import Fault, FaultyStore

__all__ = ["overtaken_attempt"]

_ROWS = 65
_BATCH = 3


def overtaken_attempt(store: Store) -> list[str]:
    """Stops an attempt before its write until another one has committed; gives the keys that it changed after that.

    Both have the same rows in other bytes, as two releases of PyArrow may write them.
    """
    committed: dict[str, bytes] = {}

    def overtake() -> None:
        if not committed:
            sink = ChangeFiles(store)
            sink.commit(summary(_BATCH, _ROWS), [message(0, _ROWS, _write(sink, writer="this release"))])
            committed.update({each.key: store.get(each.key) for each in store.list("")})

    writes = [Fault(operation=operation, key="*part-*", action=overtake) for operation in ("create", "put")]
    _write(ChangeFiles(FaultyStore(store, *writes)), writer="another release")
    assert max(map(len, committed.values())) > 64 * 2**20
    return [each.key for each in store.list("") if store.get(each.key) != committed.get(each.key)]


def _write(sink: ChangeFiles, *, writer: str) -> dict[str, int]:
    random_bytes = random.Random(7)
    values = pa.array([random_bytes.randbytes(2**20) for _ in range(_ROWS)], pa.large_binary())
    schema = pa.schema({"value": pa.large_binary()}, metadata={"writer": writer})
    return sink.write(
        batch_number=_BATCH, number=0, schema=schema, changes=iter([pa.record_batch([values], schema=schema)])
    )
