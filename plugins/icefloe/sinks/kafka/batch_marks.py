"""BEGIN and END of a batch in the topic of transactions, as Debezium writes them."""

import json
from time import time_ns

from icefloe.sinks.batch_to_deliver import ProvenBatch


def begin_mark(batch: ProvenBatch) -> tuple[bytes, bytes]:
    """Key and value of BEGIN."""
    return _mark(batch, "BEGIN", None)


def end_mark(batch: ProvenBatch, events: int) -> tuple[bytes, bytes]:
    """Key and value of END.

    Args:
        batch: the batch.
        events: that all its parts sent, without tombstones.
    """
    return _mark(batch, "END", events)


def _mark(batch: ProvenBatch, status: str, events: int | None) -> tuple[bytes, bytes]:
    number = str(batch.batch_number)
    collections = None
    if events is not None:
        collections = [{"data_collection": batch.origin.table, "event_count": events}]
    value = {
        "status": status,
        "id": number,
        "ts_ms": time_ns() // 10**6,
        "event_count": events,
        "data_collections": collections,
    }
    return json.dumps({"id": number}).encode(), json.dumps(value, ensure_ascii=False).encode()
