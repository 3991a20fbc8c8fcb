"""The delivery of one part: its operations sent, its conflicts passed to a judge, its dead letters kept."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.dead_letters import DeadLetter, DeadLetterFolder
from icefloe.sinks.key_changes import key_operations
from icefloe.sinks.opensearch.bulk import BulkSender
from icefloe.sinks.opensearch.cluster import Cluster
from icefloe.sinks.opensearch.conflicts import ConflictJudge
from icefloe.sinks.opensearch.opensearch_options import OpenSearchSettings
from icefloe.sinks.opensearch.operations import BulkOperations, bulk_operations
from icefloe.sinks.row_groups import row_slices
from icefloe.sinks.sink import PartDelivery

_MOST_ROWS: Final = 20_000
_MOST_BYTES: Final = 8 * 2**20
"""Rows whose documents are made at a time: their texts, lines and copies of them take ten times as much."""


class RefusedDocumentError(TerminalError):
    """The cluster refuses a document for good, and there is no folder for dead letters."""

    url: str
    id: str


@dataclass(kw_only=True)
class PartDeliverer:
    """Delivers one part.

    Attributes:
        cluster: to send to.
        settings: of the sink.
        letters: the folder of dead letters, if there is one.
        batch: of the part.
        part: to deliver.
        target: name of the index.
        writer: its alias.
        version: of all documents of the batch.
        judge: finds the reasons of conflicts.
        refuse_superseded: raises if a later batch has begun.
    """

    cluster: Cluster
    settings: OpenSearchSettings
    letters: DeadLetterFolder | None
    batch: ProvenBatch
    part: StagedPart
    target: str
    writer: str
    version: int
    judge: ConflictJudge
    refuse_superseded: Callable[[], None]

    def deliver(self) -> PartDelivery:
        """Send everything; errors are those of `Sink.deliver`."""
        # An index forgets hard deletions, so versions alone do not keep a late write from bringing a row back.
        before_each = self.refuse_superseded if self.settings.deletes == "hard" else None
        sender = BulkSender(self.cluster, self.writer, bulk_bytes=self.settings.bulk_bytes, before_each=before_each)
        counts: Counter[str] = Counter()
        letters: list[DeadLetter] = []
        for operations in self._operations():
            self._send(operations, sender, counts, letters)
        if self.letters is not None:
            self.letters.put(self.batch.batch_number, self.part.number, letters)
        return PartDelivery(
            number=self.part.number,
            rows=self.part.rows,
            documents=counts["operations"] - len(letters) - counts["superseded"] - counts["duplicates"],
            repeated=counts["repeated"],
            retries=sender.retries,
            refused=sender.refused,
            dead_letters=len(letters),
            superseded=counts["superseded"],
            bytes=sender.sent_bytes,
            details={"duplicates": counts["duplicates"]},
        )

    def _operations(self) -> Iterator[BulkOperations]:
        batch = self.batch
        for found in key_operations(
            self._read, identity=batch.identity, hash_key=batch.hash_key, duplicates=self.settings.duplicates
        ):
            yield bulk_operations(
                found,
                batch=self.batch,
                version=self.version,
                deletes=self.settings.deletes,
            )

    def _read(self) -> Iterator[pa.RecordBatch]:
        for rows in self.part.read():
            yield from row_slices(rows, max_rows=_MOST_ROWS, max_bytes=_MOST_BYTES)

    def _send(
        self, operations: BulkOperations, sender: BulkSender, counts: Counter[str], letters: list[DeadLetter]
    ) -> None:
        counts["operations"] += len(operations)
        positions: Sequence[int] = range(len(operations))
        while positions:
            result = sender.send(operations.lines.take(pa.array(positions, pa.int64())))
            for place, reason in sorted(result.refused_for_good.items()):
                self._refuse(operations, positions[place], reason, letters)
            # A conflict whose reason is gone when it is looked at is sent again.
            positions = self.judge.judge(operations, [positions[place] for place in sorted(result.conflicts)], counts)

    def _refuse(self, operations: BulkOperations, position: int, reason: str, letters: list[DeadLetter]) -> None:
        document_id, document = operations.ids[position].as_py(), operations.documents[position].as_py()
        if self.letters is None:
            raise RefusedDocumentError(
                f"{self._url} refuses document {document_id} for good ({reason}); correct the index's mapping and "
                "run again, or name a folder in sink.dead_letters",
                url=self._url,
                id=document_id,
            )
        letters.append(
            DeadLetter(
                id=document_id,
                version=self.version,
                operation="delete" if document is None else "index",
                document=None if document is None else json.loads(document),
                reason=reason,
            )
        )
        self.letters.refuse_too_many(self.batch.batch_number, len(letters), letters)

    @property
    def _url(self) -> str:
        return f"{self.cluster.url}/{self.settings.index}"
