"""Soft deletes removed for good, when nobody will replay batches of their time any more."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from icefloe.sinks.opensearch.bulk import BulkSender
from icefloe.sinks.opensearch.cluster import Cluster
from icefloe.sinks.opensearch.operations import bulk_lines
from icefloe.sinks.opensearch.read_back import pages
from icefloe.sinks.opensearch.row_documents import DELETED, DELETED_AT


@dataclass(frozen=True, slots=True, kw_only=True)
class OldMarks:
    """The marks of rows that were deleted before a time.

    Attributes:
        cluster: to ask.
        index: name of the index, not an alias that leaves the marks out.
        before: time of the commit, aware.
        kept: ids of documents whose marks stay.
    """

    cluster: Cluster
    index: str
    before: datetime
    kept: AbstractSet[str] = frozenset()

    def count(self) -> int:
        """Number of marks that `purge` would remove."""
        return sum(len(page) for page in self._pages())

    def purge(self, writer: str, *, bulk_bytes: int) -> int:
        """Deletes the marks, and returns their number; a row that came back meanwhile stays.

        Args:
            writer: alias to write to.
            bulk_bytes: size of a bulk request.
        """
        sender = BulkSender(self.cluster, writer, bulk_bytes=bulk_bytes)
        purged = 0
        for page in self._pages():
            # The deletion has the version of the mark: the next write of the document is still a later one.
            for version, ids in _by_version(page):
                lines = bulk_lines(pa.array(ids, pa.large_string()), pa.nulls(len(ids), pa.large_string()), version)
                purged += len(ids) - len(sender.send(lines).conflicts)
        return purged

    def _pages(self) -> Iterator[list[object]]:
        moment = self.before.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        query = {"bool": {"filter": [{"term": {DELETED: True}}, {"range": {DELETED_AT: {"lt": moment}}}]}}
        for page in pages(self.cluster, self.index, query):
            yield [each for each in page if each["_id"] not in self.kept]


def _by_version(page: Sequence[Any]) -> Iterator[tuple[int, list[str]]]:
    for version in sorted({each["_version"] for each in page}):
        yield version, [each["_id"] for each in page if each["_version"] == version]
