"""The opensearch sink: a document for each key, with the state of the table's rows."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

import pyarrow as pa

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.dead_letters import DeadLetterFolder
from icefloe.sinks.opensearch.claims import BegunBatch, Claims
from icefloe.sinks.opensearch.cluster import Cluster, IndexGoneError
from icefloe.sinks.opensearch.cluster_facts import cluster_uuid
from icefloe.sinks.opensearch.conflicts import ConflictJudge, superseded
from icefloe.sinks.opensearch.deletions import OldMarks
from icefloe.sinks.opensearch.document_delivery import PartDeliverer
from icefloe.sinks.opensearch.index_names import version_of_batch
from icefloe.sinks.opensearch.indexes import Indexes, IndexMisfitError
from icefloe.sinks.opensearch.letter_replay import LetterReplay
from icefloe.sinks.opensearch.opensearch_options import OpenSearchSettings
from icefloe.sinks.opensearch.present_index import PresentIndex
from icefloe.sinks.opensearch.read_back import read_documents
from icefloe.sinks.part_sink import KeepsDeadLetters, KeepsDeletions, PartDelivery, PartSink, SeesForeignWrites
from icefloe.sinks.sink_identity import SinkIdentity
from icefloe.storage.store import Store


def open_opensearch_sink(
    options: Mapping[str, object], *, connection: Mapping[str, object], open_store: Callable[[str], Store]
) -> "OpenSearchSink":
    """The sink that a pipeline describes; arguments as in `open_delivery_sink`."""
    settings = OpenSearchSettings.of(options, connection)
    letters = settings.dead_letters
    if letters is None:
        return OpenSearchSink(settings)
    folder = DeadLetterFolder(open_store(letters.path), limit=letters.limit, way_out="correct the index and run again")
    return OpenSearchSink(settings, letters=folder)


class OpenSearchSink(PartSink, KeepsDeletions, KeepsDeadLetters, SeesForeignWrites):
    """Documents in an index behind an alias.

    Every write names a version: the batch number, below the number of times that the index changed its owner. The
    cluster refuses a version that is not greater, so a repeated write changes nothing, and neither does a late one.

    Args:
        settings: of the sink.
        letters: the folder of dead letters, if there is one.
    """

    keyed: ClassVar[bool] = True

    def __init__(self, settings: OpenSearchSettings, *, letters: DeadLetterFolder | None = None) -> None:
        self._settings = settings
        self._letters = letters
        self._cluster = Cluster(settings.access)
        self._indexes = Indexes(self._cluster, settings)
        self._names = self._indexes.names
        self._claims = Claims(self._cluster, self._names)
        self._present_index = PresentIndex(claims=self._claims, names=self._names, url=self.url)
        self._read_versions = Counter[int]()

    @property
    def url(self) -> str:
        """The index, for people and errors; without secrets."""
        return f"{self._cluster.url}/{self._settings.index}"

    def check(self) -> None:
        """Make an empty index next to the others, write a document to it, and remove it."""
        name = f"{self._names.index}-icefloe-probe"
        self._cluster.ask("PUT", f"/{name}", {"settings": {"index": {"number_of_shards": 1}}}, allowed=(400,))
        try:
            self._cluster.ask("PUT", f"/{name}/_doc/probe", {})
        finally:
            self._cluster.ask("DELETE", f"/{name}", allowed=(404,))

    def refuse_other_owner(self, origin: Origin) -> None:
        """Read the claim; without one, look whether the name is free; see `DeliverySink`."""
        found = self._claims.find()
        if found is None:
            self._indexes.refuse_foreign()
        else:
            self._claims.refuse_other(found, origin)

    def claim(self, origin: Origin, *, takes_over: bool = False) -> None:
        """Create the claim in the hidden index next to the documents; see `DeliverySink`."""
        first_generation = 0
        if self._claims.find() is None:
            self._indexes.refuse_foreign()
            # A claim that was lost had a generation, which the indexes of its loads tell.
            first_generation = self._indexes.next_generation()
        self._claims.claim(origin, takes_over=takes_over, first_generation=first_generation)
        if self._letters is not None:
            self._letters.claim(origin, self._identity(), takes_over=takes_over)

    def begin(self, batch: ProvenBatch) -> Mapping[str, object]:
        """Note that the batch begins, and prepare its index: a new one for a load, otherwise that of the batch before.

        Returns:
            ``index``: name of the index; ``writer``: alias to write to; ``version``: of all documents of the batch.
            ``replaced_by`` alone, for a replay of a batch from before the present load: the index of that load.

        Raises:
            SupersededError: a later batch has begun.
            IndexMisfitError: the index does not fit the batch.
            IndexGoneError: the index that the batch was to be written to, or was written to, is missing.
        """
        self._refuse_keyless(batch)
        claim = self._claims.refuse_other(self._claims.find(), batch.origin)
        version = version_of_batch(claim.generation, batch.batch_number)
        before = self._claims.progress()
        if before is None and (batch.continues or self._would_replace(batch)):
            raise IndexMisfitError(
                f"{self.url} knows nothing of pipeline {batch.origin.pipeline}, and batch {batch.batch_number} goes on "
                "where others ended: this is another cluster, or its indexes were removed; correct sink.url, or run "
                "`icefloe reset` for the pipeline, which loads the table",
                url=self.url,
            )
        if before is not None and before.version > version and not batch.is_replay:
            raise superseded(self.url, batch)
        if before is not None and not self._is_of_load(before.target, version):
            return {"replaced_by": before.target}
        is_of_owner_before = before is not None and before.version < version_of_batch(claim.generation, 0)
        if is_of_owner_before and not (batch.begins_anew or batch.is_replay):
            raise IndexMisfitError(
                f"{self.url} was taken over from another pipeline and has its documents, and batch "
                f"{batch.batch_number} of pipeline {batch.origin.pipeline} replaces nothing: run `icefloe reset "
                f"{batch.origin.pipeline}`, whose load replaces them",
                url=self.url,
            )
        target = self._target(batch, version, before)
        # Parts that an earlier try delivered are not sent again, so they must be in the very index that it found.
        is_again = before is not None and before.version == version and not batch.is_replay
        noted = BegunBatch(version=version, target=target, uuid=before.uuid if before and is_again else None)
        if (before is None or before.version <= version) and not self._claims.begin(noted):
            raise superseded(self.url, batch)
        begun = {"index": target, "writer": self._names.writer(target), "version": version}
        with self._while_index_stays(batch, begun):
            # An index of the batch's own version is for this batch to make, also after a kill right before.
            is_new = before is None or batch.begins_anew or target == self._names.of_load(version)
            self._prepare(batch, noted, is_new=is_new)
        return begun

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        """Write one document for each key of the part that changed; see `PartSink`."""
        if "replaced_by" in begun:
            # Its changes are counted, and not the documents that they would make, so that nothing has to be read.
            return PartDelivery(number=part.number, rows=part.rows, documents=0, superseded=part.rows)
        writer, version = begun["writer"], begun["version"]
        judge = ConflictJudge(
            cluster=self._cluster, url=self.url, writer=writer, batch=batch, version=version,
            keeps_one=self._settings.duplicates == "keep_one", latest=self._latest_version,
        )  # fmt: skip
        deliverer = PartDeliverer(
            cluster=self._cluster, settings=self._settings, letters=self._letters, batch=batch, part=part,
            target=begun["index"], writer=writer, version=version, judge=judge,
        )  # fmt: skip
        with self._while_index_stays(batch, begun):
            return deliverer.deliver()

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:
        """Refresh the index; after a load, let the name that readers search point to it, and remove the old one.

        Raises:
            SupersededError: a later batch has begun.
            TooManyDeadLettersError: all parts together have more dead letters than the limit allows.
        """
        if "replaced_by" in begun:
            return
        count = sum(each.dead_letters for each in deliveries)
        if self._letters is not None and count:
            self._letters.refuse_too_many(batch.batch_number, count, list(self._letters.letters(batch.batch_number)))
        self._refuse_superseded(batch, begun)
        if not batch.is_load or batch.ends_load:
            with self._while_index_stays(batch, begun):
                self._indexes.show(begun["index"])

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """Rows of all documents that are not marked as deleted, as of one moment; or those of some keys, as of now."""
        self._read_versions.clear()
        return read_documents(self._cluster, self._names.index, schema, keys=keys, versions=self._read_versions)

    def foreign_writes(self) -> int:
        """Documents that were read with a version after the batch that began last: no batch wrote these."""
        # Asked after the documents were read: a batch notes that it begins before it writes.
        latest = self._latest_version()
        return 0 if latest is None else sum(count for version, count in self._read_versions.items() if version > latest)

    def purge(self, *, before: datetime, dry_run: bool = False) -> int:
        """Remove for good what was soft-deleted by commits before a time (aware); returns the number of documents.

        A replay of batches from before that time would bring such rows back. Marks of rows that have a dead letter
        stay, because the letter may be sent again. A dry run only counts.

        Raises:
            IndexMisfitError: the index forgets deletions too soon.
        """

        def purged(begun: BegunBatch) -> int:
            marks = OldMarks(
                cluster=self._cluster, index=begun.target, before=before, kept=self._ids_of_letters(),
            )  # fmt: skip
            if dry_run:
                return marks.count()
            self._indexes.remember_deletions(begun.target)
            return marks.purge(self._names.writer(begun.target), bulk_bytes=self._settings.bulk_bytes)

        return self._present_index.work_on(purged) or 0

    def dead_letters(self) -> Mapping[int, int]:
        """Count the lines of the folder's files."""
        folder = self._own_letters()
        if folder is None:
            return {}
        return {number: sum(1 for _ in folder.letters(number)) for number in folder.batches()}

    def replay_dead_letters(self, batch_number: int) -> Sequence[PartDelivery]:
        """Send the letters of a batch to the index of the present load, by their own versions.

        Letters from before that load are dropped, because the load has the state of their rows. With ``deletes: hard``
        a letter that is older than ``index.gc_deletes`` stays: its row may have been deleted and forgotten since.

        Raises:
            OtherSinkError: the folder has the letters of another sink.
        """
        folder = self._own_letters()
        if folder is None:
            return []

        def replayed(begun: BegunBatch) -> Sequence[PartDelivery]:
            replay = LetterReplay(
                cluster=self._cluster, folder=folder, writer=self._names.writer(begun.target),
                first_version=self._names.version_of(begun.target) or 0,
                forgets_after=self._indexes.forgets_after(begun.target), bulk_bytes=self._settings.bulk_bytes,
            )  # fmt: skip
            return replay.replay(batch_number)

        return self._present_index.work_on(replayed) or []

    def close(self) -> None:
        """Give back connections."""
        self._cluster.close()

    def _identity(self) -> SinkIdentity:
        return SinkIdentity(sink=f"index {self._settings.index}", cluster=cluster_uuid(self._cluster))

    def _own_letters(self) -> DeadLetterFolder | None:
        """The folder of dead letters, which is not known to be another sink's; None: there is none."""
        if self._letters is not None:
            self._letters.refuse_other_sink(self._identity())
        return self._letters

    def _ids_of_letters(self) -> frozenset[str]:
        folder = self._own_letters()
        if folder is None:
            return frozenset()
        return frozenset(letter.id for number in folder.batches() for letter in folder.letters(number))

    def _latest_version(self) -> int | None:
        begun = self._claims.progress()
        return None if begun is None else begun.version

    def _would_replace(self, batch: ProvenBatch) -> bool:
        """True if a replay without a load would begin the index anew that readers have."""
        return batch.is_replay and not batch.begins_anew and self._indexes.is_in_use()

    def _prepare(self, batch: ProvenBatch, noted: BegunBatch, *, is_new: bool) -> None:
        uuid = self._indexes.prepare(
            noted.target, is_new=is_new, uuid=noted.uuid, schema=batch.schema, shown=batch.shown,
            identity=batch.identity,
        )  # fmt: skip
        if uuid != noted.uuid and not batch.is_replay and not self._claims.begin(replace(noted, uuid=uuid)):
            raise superseded(self.url, batch)

    def _target(self, batch: ProvenBatch, version: int, before: BegunBatch | None) -> str:
        own = self._indexes.own_index()
        if own is not None:
            is_known = self._indexes.is_known(own)
            if not is_known and before is not None and before.version < version and not batch.begins_anew:
                # Somebody made it again: it lacks what earlier batches wrote.
                raise self._gone(batch, self._names.index)
            if is_known and batch.begins_anew and (before is None or before.version < version):
                raise IndexMisfitError(
                    f"{self.url} is an index that you made, so a new load cannot replace it at once; remove it and let "
                    "icefloe make one behind an alias of that name, or load into another sink.index",
                    url=self.url,
                )
            return self._names.index
        if before is None or batch.begins_anew:
            return self._names.of_load(version)
        return before.target

    @contextmanager
    def _while_index_stays(self, batch: ProvenBatch, begun: Mapping[str, object]) -> Iterator[None]:
        """Say of an index that is gone that a later load has removed it, or else the way out."""
        try:
            yield
        except IndexGoneError:
            self._refuse_superseded(batch, begun)
            raise self._gone(batch, begun["index"]) from None

    def _gone(self, batch: ProvenBatch, target: object) -> IndexGoneError:
        return IndexGoneError(
            f"the index behind {self._cluster.url}/{target} was removed while batch {batch.batch_number} "
            f"was written to it; run `icefloe reset {batch.origin.pipeline}`, which loads the table again",
            url=self.url,
        )

    def _is_of_load(self, target: str, version: int) -> bool:
        """True if a batch is of the load whose index that is, or later."""
        begun = self._names.version_of(target)
        return begun is None or begun <= version

    def _refuse_superseded(self, batch: ProvenBatch, begun: Mapping[str, Any]) -> None:
        latest = self._claims.progress()
        if latest is None or latest.version <= begun["version"]:
            return
        if not batch.is_replay or latest.target != begun["index"]:
            raise superseded(self.url, batch)

    def _refuse_keyless(self, batch: ProvenBatch) -> None:
        if not batch.identity:
            raise TerminalError(
                f"{self.url} holds one document per key, and table {batch.origin.table} has no identifier columns; set "
                "identifier_columns in the pipeline",
                url=self.url,
            )
