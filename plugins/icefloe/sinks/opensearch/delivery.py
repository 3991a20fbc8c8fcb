"""The delivery of parts, with their conflicts."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.dead_letters import DeadLetter, DeadLetterFolder
from icefloe.sinks.key_changes import key_operations
from icefloe.sinks.opensearch.bulk import BulkOperations, BulkSender, bulk_operations
from icefloe.sinks.opensearch.cluster import Cluster, stored_documents
from icefloe.sinks.opensearch.opensearch_options import OpenSearchSettings
from icefloe.sinks.opensearch.row_documents import DELETED
from icefloe.sinks.parquet_files import row_slices
from icefloe.sinks.sink import PartDelivery, superseded

_MOST_ROWS: Final = 20_000
_MOST_BYTES: Final = 8 * 2**20
"""Rows whose documents are made at a time: their texts, lines and copies of them take ten times as much."""


def _is_content(document: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """True if these fields are stored; an ingest pipeline may have added others."""
    own = {name: value for name, value in stored.items() if name in document}
    return own == document and (DELETED in stored) == (DELETED in document)


@dataclass(kw_only=True)
class PartDeliverer:
    """Delivers one part.

    Attributes:
        latest: gives the version of the batch that began last; None: unknown.
        refuse_superseded: raises if a later batch has begun.
    """

    cluster: Cluster
    settings: OpenSearchSettings
    letters: DeadLetterFolder | None
    batch: ProvenBatch
    part: StagedPart
    writer: str
    version: int
    latest: Callable[[], int | None]
    refuse_superseded: Callable[[], None]
    _counts: Counter[str] = field(default_factory=Counter)
    _refused: list[DeadLetter] = field(default_factory=list)

    def deliver(self) -> PartDelivery:
        """Send everything; errors are those of `Sink.deliver`."""
        # An index forgets hard deletions, so versions alone do not keep a late write from bringing a row back.
        before_each = self.refuse_superseded if self.settings.deletes == "hard" else None
        sender = BulkSender(self.cluster, self.writer, bulk_bytes=self.settings.bulk_bytes, before_each=before_each)
        found = key_operations(
            self._read, identity=self.batch.identity, hash_key=self.batch.hash_key, duplicates=self.settings.duplicates
        )
        for each in found:
            self._send(
                bulk_operations(each, batch=self.batch, version=self.version, deletes=self.settings.deletes), sender
            )
        if self.letters is not None:
            self.letters.put(self.batch.batch_number, self.part.number, self._refused)
        counts, letters = self._counts, len(self._refused)
        return PartDelivery(
            number=self.part.number,
            rows=self.part.rows,
            documents=counts["operations"] - letters - counts["superseded"] - counts["duplicates"],
            repeated=counts["repeated"],
            retries=sender.retries,
            refused=sender.refused,
            dead_letters=letters,
            superseded=counts["superseded"],
            bytes=sender.sent_bytes,
            details={"duplicates": counts["duplicates"]},
        )

    def _read(self) -> Iterator[pa.RecordBatch]:
        for rows in self.part.read():
            yield from row_slices(rows, max_rows=_MOST_ROWS, max_bytes=_MOST_BYTES)

    def _send(self, operations: BulkOperations, sender: BulkSender) -> None:
        self._counts["operations"] += len(operations)
        positions: Sequence[int] = range(len(operations))
        while positions:
            result = sender.send(operations.lines.take(pa.array(positions, pa.int64())))
            for place, reason in sorted(result.refused_for_good.items()):
                self._keep_letter(operations, positions[place], reason)
            # A conflict whose reason is gone when it is looked at is sent again.
            positions = self._judge(operations, [positions[place] for place in sorted(result.conflicts)])

    def _keep_letter(self, operations: BulkOperations, position: int, reason: str) -> None:
        document_id, document = operations.ids[position].as_py(), operations.documents[position].as_py()
        if self.letters is None:
            raise TerminalError(
                f"{self._url} refuses document {document_id} for good ({reason}); correct the index's mapping and "
                "run again, or name a folder in sink.dead_letters"
            )
        self._refused.append(
            DeadLetter(
                id=document_id,
                version=self.version,
                operation="delete" if document is None else "index",
                document=None if document is None else json.loads(document),
                reason=reason,
            )
        )
        self.letters.refuse_too_many(self.batch.batch_number, len(self._refused), self._refused)

    def _judge(self, operations: BulkOperations, positions: list[int]) -> list[int]:
        """Count the conflicts; returns the positions to send again."""
        again = []
        ids = [operations.ids[position].as_py() for position in positions]
        for position, found in zip(positions, stored_documents(self.cluster, self.writer, ids), strict=True):
            document = operations.documents[position].as_py()
            content = None if document is None else json.loads(document)
            outcome = self._outcome(content, found)
            if outcome is None:
                again.append(position)
            else:
                self._counts[outcome] += 1
        return again

    def _outcome(self, content: Mapping[str, Any] | None, found: Mapping[str, Any]) -> str | None:
        """The count for a write that was refused; None: send it again.

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
            content: None: the document was to be deleted.
        """
        stored = found["_version"] if found["found"] else None
        if stored is not None and stored < self.version:
            return None
        if stored == self.version:
            is_ours = content is not None and _is_content(content, found["_source"])
            return "repeated" if is_ours else self._other_content(found)
        # Asked after the document was read: a batch notes that it begins before it writes.
        begun = self.latest()
        if stored is None and begun == self.version and content is not None and DELETED in content:
            return "repeated"
        if begun is not None and (begun <= self.version if stored is None else begun < stored):
            raise self._foreign(found["_id"])
        if self.batch.is_replay:
            return "superseded"
        raise superseded(self.batch, self._url)

    def _other_content(self, found: Mapping[str, Any]) -> str:
        """``duplicates`` for another row of the key; an error if the batch did not write that."""
        # A batch that was shuffled by key wrote each document once. Others have inserts only.
        if any(rows for change_type, rows in self.batch.counts.items() if change_type != "insert") or (
            DELETED in found["_source"]
        ):
            raise self._foreign(found["_id"])
        if self.settings.duplicates == "keep_one":
            return "duplicates"
        raise TerminalError(
            f"{self._url}: several rows have the key of document {found['_id']} after batch "
            f"{self.batch.batch_number}, and the index holds one; write `duplicates: keep_one`, or correct the "
            "table or identifier_columns, then run `icefloe reset` for the pipeline"
        )

    def _foreign(self, document_id: str) -> TerminalError:
        return TerminalError(
            f"{self._url}: another program wrote or deleted document {document_id} and raised its version, so batch "
            f"{self.batch.batch_number} cannot write it; stop that program (_update_by_query is one), then run "
            "`icefloe reset` for the pipeline, which loads a new index"
        )

    @property
    def _url(self) -> str:
        return f"{self.cluster.url}/{self.settings.index}"
