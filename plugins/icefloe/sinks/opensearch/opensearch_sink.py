"""A document for each key."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from icefloe.errors import TransientError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.dead_letters import DeadLetterFolder
from icefloe.sinks.opensearch.batch_index import BatchIndex, Claims
from icefloe.sinks.opensearch.cluster import Cluster, IndexGoneError, cluster_uuid
from icefloe.sinks.opensearch.delivery import BulkSender, PartDeliverer, bulk_lines
from icefloe.sinks.opensearch.indexes import Indexes, batch_number_of
from icefloe.sinks.opensearch.opensearch_options import OpenSearchSettings
from icefloe.sinks.opensearch.row_documents import DELETED, DELETED_AT, pages, read_documents
from icefloe.sinks.sink import PartDelivery, Sink
from icefloe.storage.store import Store


def open_opensearch_sink(
    options: Mapping[str, object], *, connection: Mapping[str, object], open_store: Callable[[str], Store]
) -> "OpenSearchSink":
    """The sink of a pipeline; arguments as in `open_sink`."""
    settings = OpenSearchSettings.of(options, connection)
    letters = settings.dead_letters
    folder = None if letters is None else DeadLetterFolder(open_store(letters.path), limit=letters.limit)
    return OpenSearchSink(settings, letters=folder)


class OpenSearchSink(Sink):
    """Documents in an index behind an alias. Each write has a version, so a repeated or late one changes nothing."""

    # The version is the batch number, below the number of take-overs. The cluster refuses one that is not greater.

    keyed: ClassVar[bool] = True
    keeps_deletions: ClassVar[bool] = True
    keeps_dead_letters: ClassVar[bool] = True

    def __init__(self, settings: OpenSearchSettings, *, letters: DeadLetterFolder | None = None) -> None:
        self._settings = settings
        self.wants_unique_keys = settings.duplicates == "fail"
        self._letters = letters
        self._cluster = Cluster(settings.access)
        self._indexes = Indexes(self._cluster, settings)
        self._names = self._indexes.names
        self._claims = Claims(self._cluster, self._names)
        self._batch_index = BatchIndex(claims=self._claims, indexes=self._indexes, url=self.url)

    @property
    def url(self) -> str:
        """The index, for people and errors; without secrets."""
        return f"{self._cluster.url}/{self._settings.index}"

    def check(self) -> None:
        """Make an empty index, write a document to it, and remove it."""
        name = f"{self._names.index}-icefloe-probe"
        settings = {"settings": {"index": {"number_of_shards": 1}}}
        self._cluster.ask("PUT", f"/{name}", settings, allowed=(400,), has=("acknowledged",))
        try:
            self._cluster.ask("PUT", f"/{name}/_doc/probe", {}, has=("_version",))
        finally:
            self._cluster.ask("DELETE", f"/{name}", allowed=(404,))

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:
        """Create the claim in the hidden index; without one, the name must be free."""
        is_claimed = self._claims.find() is not None
        if not is_claimed:
            self._indexes.refuse_foreign(self._names.index)
        if not only_looks:
            # A claim that was lost had a generation, which the indexes of its loads tell.
            first_generation = 0 if is_claimed else self._indexes.next_generation()
            self._claims.claim(origin, takes_over=takes_over, first_generation=first_generation)
        elif is_claimed:
            self._claims.of(origin)
        if self._letters is not None:
            cluster = cluster_uuid(self._cluster)
            self._letters.claim(origin, self._settings.index, cluster, takes_over=takes_over, only_looks=only_looks)

    def begin(self, batch: ProvenBatch) -> Mapping[str, object]:
        """Record that the batch begins, and prepare its index; see `BatchIndex`."""
        return self._batch_index.begin(batch)

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        """Write one document for each key of the part that changed."""
        if "replaced_by" in begun:
            # Its changes are counted, and not the documents that they would make, so that nothing has to be read.
            if self._letters is not None:
                self._letters.put(batch.batch_number, part.number, ())
            return PartDelivery(number=part.number, rows=part.rows, documents=0, superseded=part.rows)
        writer, version = begun["writer"], begun["version"]
        deliverer = PartDeliverer(
            cluster=self._cluster, settings=self._settings, letters=self._letters, batch=batch, part=part,
            writer=writer, version=version, latest=self._latest_version,
            refuse_superseded=partial(self._batch_index.refuse_superseded, batch, begun),
        )  # fmt: skip
        with self._batch_index.while_it_stays(batch, begun):
            return deliverer.deliver()

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:
        """Refresh the index; after a load, show it, and remove the old one."""
        if "replaced_by" in begun:
            return
        if self._letters is not None:
            self._letters.refuse_too_many(batch.batch_number, sum(each.dead_letters for each in deliveries))
        self._batch_index.refuse_superseded(batch, begun)
        if not batch.is_load or batch.ends_load:
            with self._batch_index.while_it_stays(batch, begun):
                self._indexes.show(begun["index"])
        if batch.ends_load and self._letters is not None:
            self._letters.discard_before(batch_number_of(self._names.version_of(begun["index"]) or 0))

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """Rows of all live documents, as of one moment; or those of some keys, as of now."""
        return read_documents(self._cluster, self._names.index, schema, keys=keys)

    def purge(self, *, before: datetime, dry_run: bool = False) -> int:
        """Remove what was soft-deleted by commits before a time (aware); returns the number of documents."""
        # A replay of earlier batches would bring such rows back. Marks of rows with a dead letter stay.
        moment = before.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        query = {"bool": {"filter": [{"term": {DELETED: True}}, {"range": {DELETED_AT: {"lt": moment}}}]}}

        begun = self._claims.progress()
        while begun is not None:
            try:
                return self._purged(begun.target, query, dry_run=dry_run)
            except IndexGoneError:
                latest = self._claims.progress()
                if latest == begun and self._names.version_of(begun.target) != begun.version:
                    raise
                if latest == begun:
                    # The batch that began last makes the index itself, and may not have got there yet.
                    raise TransientError(
                        f"{self.url}: a load that has just begun makes index {begun.target}; run again when it has. If "
                        "no run is under way, the next one makes it, or says the way out"
                    ) from None
                begun = latest
        return 0

    def _purged(self, target: str, query: Mapping[str, Any], *, dry_run: bool) -> int:
        kept = self._ids_of_letters()
        sender = BulkSender(self._cluster, self._names.writer(target), bulk_bytes=self._settings.bulk_bytes)
        count = 0
        # Not by the alias, which leaves marks out.
        for page in pages(self._cluster, target, query):
            marks = [each for each in page if each["_id"] not in kept]
            count += len(marks) if dry_run else sum(_deleted(sender, *each) for each in _by_version(marks))
        return count

    def dead_letters(self) -> Mapping[int, int]:
        """Count the lines of the folder's files."""
        return {} if self._letters is None else self._letters.counts()

    def close(self) -> None:
        """Give back connections."""
        self._cluster.close()

    def _ids_of_letters(self) -> frozenset[str]:
        if self._letters is None:
            return frozenset()
        return frozenset(each.id for number in self._letters.batches() for each in self._letters.letters(number))

    def _latest_version(self) -> int | None:
        begun = self._claims.progress()
        return None if begun is None else begun.version


def _by_version(marks: Sequence[Any]) -> Iterator[tuple[int, list[str]]]:
    for version in sorted({each["_version"] for each in marks}):
        yield version, [each["_id"] for each in marks if each["_version"] == version]


def _deleted(sender: BulkSender, version: int, ids: list[str]) -> int:
    """Delete marks with their own version; a row that came back stays."""
    lines = bulk_lines(pa.array(ids, pa.large_string()), pa.nulls(len(ids), pa.large_string()), version)
    return len(ids) - len(sender.send(lines).conflicts)
