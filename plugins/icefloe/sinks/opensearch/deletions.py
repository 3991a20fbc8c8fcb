"""Soft deletes removed for good, when nobody will replay batches of their time any more."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from icefloe.sinks.opensearch.bulk import BulkSender
from icefloe.sinks.opensearch.cluster import Cluster
from icefloe.sinks.opensearch.operations import bulk_lines
from icefloe.sinks.opensearch.read_back import pages
from icefloe.sinks.opensearch.row_documents import DELETED, DELETED_AT


def purge_deletions(cluster: Cluster, index: str, writer: str, *, before: datetime, bulk_bytes: int) -> int:
    """Delete the marks of rows that were deleted before a time; a row that came back meanwhile stays.

    Args:
        cluster: to ask.
        index: name of the index, not an alias that leaves the marks out.
        writer: alias to write to.
        before: time of the commit, aware.
        bulk_bytes: size of a bulk request.

    Returns:
        Number of marks that were removed.
    """
    sender = BulkSender(cluster, writer, bulk_bytes=bulk_bytes)
    purged = 0
    for page in pages(cluster, index, _deleted(before)):
        # The deletion has the version of the mark: the next write of the document is still a later one.
        for version, ids in _by_version(page):
            lines = bulk_lines(pa.array(ids, pa.large_string()), pa.nulls(len(ids), pa.large_string()), version)
            purged += len(ids) - len(sender.send(lines).conflicts)
    return purged


def count_deletions(cluster: Cluster, index: str, *, before: datetime) -> int:
    """Number of marks that `purge_deletions` would remove."""
    return sum(len(page) for page in pages(cluster, index, _deleted(before)))


def _deleted(before: datetime) -> dict[str, Any]:
    """The query for the marks of rows that were deleted before a time."""
    moment = before.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"bool": {"filter": [{"term": {DELETED: True}}, {"range": {DELETED_AT: {"lt": moment}}}]}}


def _by_version(page: Sequence[Any]) -> Iterator[tuple[int, list[str]]]:
    for version in sorted({each["_version"] for each in page}):
        yield version, [each["_id"] for each in page if each["_version"] == version]
