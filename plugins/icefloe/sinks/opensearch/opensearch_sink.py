"""A document for each key."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar

import pyarrow as pa

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.dead_letters import DeadLetterFolder
from icefloe.sinks.opensearch.claims import BegunBatch, Claims
from icefloe.sinks.opensearch.cluster import Cluster, IndexGoneError, cluster_uuid
from icefloe.sinks.opensearch.delivery import BulkSender, PartDeliverer, bulk_lines
from icefloe.sinks.opensearch.indexes import Indexes
from icefloe.sinks.opensearch.opensearch_options import OpenSearchSettings
from icefloe.sinks.opensearch.row_documents import DELETED, DELETED_AT, pages, read_documents
from icefloe.sinks.sink import PartDelivery, Sink, refuse_other_record, superseded
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

    def __init__(self, settings: OpenSearchSettings, *, letters: DeadLetterFolder | None = None) -> None:
        self._settings = settings
        self.wants_unique_keys = settings.duplicates == "fail"
        self.purge_after = settings.purge_after
        self._letters = letters
        self._cluster = Cluster(settings.access)
        self._indexes = Indexes(self._cluster, settings)
        self._names = self._indexes.names
        self._claims = Claims(self._cluster, self._names)

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
        """Record that the batch begins, and prepare its index: a new one for a load, otherwise the last one.

        Returns ``index``, its name; ``writer``, the alias to write to; ``version`` of all documents of the batch; and
        ``destination``, the index in words, with its uuid, if known. Or ``replaced_by`` alone, for a replay from before
        the present load: the index of that load.
        """
        if not batch.identity:
            raise TerminalError(
                f"{self.url} holds one document per key, and table {batch.origin.table} has no identifier columns; set "
                "identifier_columns in the pipeline"
            )
        generation = self._claims.of(batch.origin).generation
        version = generation << 32 | batch.batch_number
        before = self._claims.progress()
        refuse_other_record(
            batch, None if before is None else divmod(before.version, 2**32), generation, place=self.url,
            is_filled=self._indexes.is_in_use,
            elsewhere="this is another cluster, or its indexes were removed; correct sink.url",
            last_end=None if before is None else before.end,
        )  # fmt: skip
        if before is not None and (self._names.version_of(before.target) or 0) > version:
            return {"replaced_by": before.target}
        target = self._names.of_load(version) if before is None or batch.begins_anew else before.target
        if before is not None and before.version < version and target == before.target and not batch.is_replay:
            self._refuse_other_index(batch, before)
        # Parts that an earlier try delivered are not sent again, so they must be in the very index that it found.
        is_again = before is not None and before.version == version and not batch.is_replay
        noted = BegunBatch(
            version=version, target=target, end=batch.end,
            uuid=before.uuid if before and is_again else None,
        )  # fmt: skip
        is_latest = before is None or before.version <= version
        if is_latest and not self._claims.begin(noted):
            raise superseded(batch, self.url)
        begun: dict[str, object] = {"index": target, "writer": self._names.writer(target), "version": version}
        with self._while_it_stays(batch, begun):
            # An index of the batch's own version is for this batch to make, also after a kill right before.
            is_new = target == self._names.of_load(version)
            uuid = self._indexes.prepare(target, is_new=is_new, uuid=noted.uuid, batch=batch)
            if uuid != noted.uuid and is_latest and not self._claims.begin(replace(noted, uuid=uuid)):
                raise superseded(batch, self.url)
        return begun if uuid is None else {**begun, "destination": f"index {target} ({uuid})"}

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        """Write one document for each key of the part that changed."""
        if "replaced_by" in begun:
            # Its changes are counted, and not the documents that they would make, so that nothing has to be read.
            if self._letters is not None:
                self._letters.put(batch.batch_number, part.number, ())
            return PartDelivery(number=part.number, rows=part.rows, documents=0, superseded=part.rows)
        deliverer = PartDeliverer(
            cluster=self._cluster, settings=self._settings, letters=self._letters, claims=self._claims, batch=batch,
            begun=begun, part=part,
        )  # fmt: skip
        with self._while_it_stays(batch, begun):
            return deliverer.deliver()

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:
        """Refresh the index; after a load, show it, and remove the old one."""
        if "replaced_by" in begun:
            return
        if self._letters is not None:
            self._letters.refuse_too_many(batch.batch_number, sum(each.dead_letters for each in deliveries))
        self._claims.refuse_superseded(batch, begun)
        if not batch.is_load or batch.ends_load:
            with self._while_it_stays(batch, begun):
                self._indexes.show(begun["index"])
        if batch.ends_load and self._letters is not None:
            self._letters.discard_before((self._names.version_of(begun["index"]) or 0) % 2**32)

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """Rows of all live documents, as of one moment; or those of some keys, as of now."""
        return read_documents(self._cluster, self._names.index, schema, keys=keys)

    def purge(self, *, before: datetime, dry_run: bool = False) -> int:
        """Remove what was soft-deleted by commits before a time (aware); returns the number of documents."""
        # A replay of earlier batches would bring such rows back. Marks of rows with a dead letter stay.
        moment = before.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        query = {"bool": {"filter": [{"term": {DELETED: True}}, {"range": {DELETED_AT: {"lt": moment}}}]}}

        if (begun := self._claims.progress()) is None:
            return 0
        try:
            return self._purged(begun.target, query, dry_run=dry_run)
        except IndexGoneError:
            # The batch that began last makes the index itself, and may not have got there yet.
            if self._claims.progress() == begun and self._names.version_of(begun.target) != begun.version:
                raise
            raise TransientError(
                f"{self.url}: a load that has just begun makes index {begun.target}, or has replaced it; run again "
                "when it has. If no run is under way, the next one makes it, or says the way out"
            ) from None

    def _purged(self, target: str, query: Mapping[str, Any], *, dry_run: bool) -> int:
        kept = set() if self._letters is None else {letter.id for _, letter in self._letters.letters()}
        sender = BulkSender(self._cluster, self._names.writer(target), bulk_bytes=self._settings.bulk_bytes)
        count = 0
        # Not by the alias, which leaves marks out.
        for page in pages(self._cluster, target, query):
            marks = [each for each in page if each["_id"] not in kept]
            count += len(marks)
            for version in {each["_version"] for each in marks} if not dry_run else ():
                ids = pa.array([each["_id"] for each in marks if each["_version"] == version], pa.large_string())
                lines = bulk_lines(ids, pa.nulls(len(ids), pa.large_string()), version)
                # A mark with another version by now is a row that came back, and stays.
                count -= len(sender.send(lines).conflicts)
        return count

    def dead_letters(self) -> Mapping[int, int]:
        """Count the lines of the folder's files."""
        return {} if self._letters is None else self._letters.counts()

    def close(self) -> None:
        """Give back connections."""
        self._cluster.close()

    @contextmanager
    def _while_it_stays(self, batch: ProvenBatch, begun: Mapping[str, object]) -> Iterator[None]:
        """Say of a missing index that a later load has removed it, or the way out."""
        try:
            yield
        except IndexGoneError:
            self._claims.refuse_superseded(batch, begun)
            raise IndexGoneError(
                f"the index behind {self.url.rpartition('/')[0]}/{begun['index']} was removed while batch "
                f"{batch.batch_number} was written to it; run `icefloe reset {batch.origin.pipeline}`, which loads the "
                "table again"
            ) from None

    def _refuse_other_index(self, batch: ProvenBatch, before: BegunBatch) -> None:
        """Raise unless the index is the one that the last batch left."""
        uuid = self._indexes.uuid(before.target)
        if None not in (uuid, before.uuid) and uuid != before.uuid:
            name, found = batch.origin.pipeline, before.version % 2**32
            raise TerminalError(
                f"index {before.target} of {self.url.rpartition('/')[0]} is not the one that batch {found} of {name} "
                "was written to: it was restored or made again, and may lack batches; bring the last ones that it may "
                f"lack by `icefloe deliver {name} --batches FIRST-{found}`, or run `icefloe reset {name}`, which loads "
                "the table"
            )
