"""The reason for which the cluster refused a version: an earlier try, another row, a later batch, another program."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.opensearch.cluster import Cluster
from icefloe.sinks.opensearch.operations import BulkOperations
from icefloe.sinks.opensearch.row_documents import DELETED
from icefloe.sinks.opensearch.stored_documents import stored_documents
from icefloe.sinks.sink import SupersededError


class Verdict(Enum):
    """The reason of a conflict."""

    AGAIN = auto()
    REPEATED = auto()
    OTHER_CONTENT = auto()
    FOREIGN = auto()
    LATER = auto()


class ConflictingRowsError(TerminalError):
    """Two rows of one key were written by one batch, from different parts."""

    url: str
    id: str


class ForeignWriteError(TerminalError):
    """Another program raised the version of a document, so that the batch cannot write it."""

    url: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictJudge:
    """Looks at the documents that refused a write of one batch.

    Attributes:
        cluster: to ask.
        url: of the index, for errors.
        writer: its alias.
        batch: whose writes were refused.
        version: of all documents of the batch.
        keeps_one: True if of several rows of one key one is kept.
        latest: asks for the version of the batch that began last; None if the index does not know.
    """

    cluster: Cluster
    url: str
    writer: str
    batch: ProvenBatch
    version: int
    keeps_one: bool
    latest: Callable[[], int | None]

    def judge(self, operations: BulkOperations, positions: list[int], counts: Counter[str]) -> list[int]:
        """Look at the documents in conflict and count the reasons; returns the positions to send again.

        Raises:
            ConflictingRowsError: several rows of the table have one key.
            ForeignWriteError: another program wrote a document.
            SupersededError: a later batch wrote one, and this is no replay.
        """
        again = []
        ids = [operations.ids[position].as_py() for position in positions]
        for position, found in zip(positions, stored_documents(self.cluster, self.writer, ids), strict=True):
            document = operations.documents[position].as_py()
            content = None if document is None else json.loads(document)
            verdict = verdict_of(content, found, version=self.version, latest=self.latest)
            if verdict is Verdict.AGAIN:
                again.append(position)
            else:
                counts[self._counted_as(verdict, found)] += 1
        return again

    def _counted_as(self, verdict: Verdict, found: Mapping[str, Any]) -> str:
        """The name of a count; an error if the batch cannot go on."""
        if verdict is Verdict.REPEATED:
            return "repeated"
        if verdict is Verdict.FOREIGN:
            raise self._foreign(found["_id"])
        if verdict is Verdict.OTHER_CONTENT:
            return self._other_content(found)
        if self.batch.is_replay:
            return "superseded"
        raise superseded(self.url, self.batch)

    def _other_content(self, found: Mapping[str, Any]) -> str:
        """Another row of the key, from another part: ``duplicates``. An error if the batch cannot have written that."""
        if self._has_keys_in_one_part or DELETED in found["_source"]:
            raise self._foreign(found["_id"])
        if self.keeps_one:
            return "duplicates"
        raise ConflictingRowsError(
            f"{self.url}: several rows have the key of document {found['_id']} after batch "
            f"{self.batch.batch_number}, and the index holds one; write `duplicates: keep_one`, or correct the "
            "table or identifier_columns, then run `icefloe reset` for the pipeline",
            url=self.url,
            id=found["_id"],
        )

    @property
    def _has_keys_in_one_part(self) -> bool:
        """True if the batch was shuffled by key, so that it wrote each document once. Others have inserts only."""
        return any(rows for change_type, rows in self.batch.counts.items() if change_type != "insert")

    def _foreign(self, document_id: str) -> ForeignWriteError:
        return ForeignWriteError(
            f"{self.url}: another program wrote or deleted document {document_id} and raised its version, so batch "
            f"{self.batch.batch_number} cannot write it; stop that program (_update_by_query is one), then run "
            "`icefloe reset` for the pipeline, which loads a new index",
            url=self.url,
            id=document_id,
        )


def verdict_of(
    content: Mapping[str, Any] | None, found: Mapping[str, Any], *, version: int, latest: Callable[[], int | None]
) -> Verdict:
    """The reason for which a write of a document was refused.

    ================================  ==============================================================
    the cluster has                   it is
    ================================  ==============================================================
    an earlier version                no conflict any more: send it again
    our version, our content          an earlier try: repeated
    our version, other content        another row of the key, or of another program
    a version after the last batch    no batch wrote it: foreign
    a later version                   of a later batch
    no document                       a later batch deleted it, and the cluster remembers. Without a
                                      later batch, the mark of an earlier try was purged: repeated;
                                      foreign if a row was to be there
    ================================  ==============================================================

    Args:
        content: of the document; None: it was to be deleted.
        found: the document, as `stored_documents` has it.
        version: that the write had.
        latest: asks for the version of the batch that began last; None if the index does not know.
    """
    stored = found["_version"] if found["found"] else None
    if stored is not None and stored < version:
        return Verdict.AGAIN
    if stored == version:
        is_ours = content is not None and _is_content(content, found["_source"])
        return Verdict.REPEATED if is_ours else Verdict.OTHER_CONTENT
    # Asked after the document was read: a batch notes that it begins before it writes.
    begun = latest()
    if stored is None and begun == version and content is not None and DELETED in content:
        return Verdict.REPEATED
    if begun is not None and (begun <= version if stored is None else begun < stored):
        return Verdict.FOREIGN
    return Verdict.LATER


def _is_content(document: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """True if these fields are stored; an ingest pipeline of the cluster may have added others."""
    own = {name: value for name, value in stored.items() if name in document}
    return own == document and (DELETED in stored) == (DELETED in document)


def superseded(url: str, batch: ProvenBatch) -> SupersededError:
    """The error of a batch that came too late."""
    return SupersededError(
        f"{url} holds a later batch than batch {batch.batch_number}, which was stopped for a while; nothing is to be "
        "done, the later batch stays",
        url=url,
        batch_number=batch.batch_number,
    )
