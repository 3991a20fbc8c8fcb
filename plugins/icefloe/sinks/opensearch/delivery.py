"""Bulk requests, how a busy cluster takes them, and the delivery of parts with their conflicts."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart, column_paths
from icefloe.sinks.dead_letters import DeadLetter, DeadLetterFolder
from icefloe.sinks.json_texts import TEXT, escaped_texts, joined
from icefloe.sinks.key_changes import KeyOperations, document_ids, key_operations
from icefloe.sinks.opensearch.claims import Claims
from icefloe.sinks.opensearch.cluster import Answer, Cluster, Pauses, reason_of, stored_documents
from icefloe.sinks.opensearch.opensearch_options import OpenSearchSettings
from icefloe.sinks.opensearch.row_documents import DELETED, deletion_markers, documents
from icefloe.sinks.parquet_files import row_slices
from icefloe.sinks.sink import PartDelivery, superseded

_LOG: Final = logging.getLogger(__name__)
_SMALLEST_BYTES: Final = 64 * 2**10
_PARAMS: Final = {
    "require_alias": "true",
    "filter_path": "errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOperations:
    """Operations on different documents (JSON; null: deleted), and their lines of the request."""

    ids: pa.Array
    documents: pa.Array
    lines: pa.Array


def bulk_operations(
    operations: KeyOperations, *, batch: ProvenBatch, version: int, deletes: Literal["soft", "hard"]
) -> BulkOperations:
    """The operations that bring documents up to date."""
    ids = document_ids(operations.rows, batch.identity)
    is_live = operations.is_live
    live = documents(batch.shown_rows(operations.rows.filter(pa.array(is_live))))
    gone_rows = operations.rows.filter(pa.array(~is_live))
    if deletes == "hard":
        gone = pa.nulls(gone_rows.num_rows, TEXT)
    else:
        gone_at = operations.committed_at.filter(pa.array(~is_live))
        shown = {".".join(path) for path in column_paths(batch.shown_schema)}
        gone = deletion_markers(gone_rows, gone_at, [name for name in batch.identity if name in shown])
    positions = np.where(is_live, np.cumsum(is_live) - 1, len(live) + np.cumsum(~is_live) - 1)
    bodies = pa.concat_arrays([live, gone]).take(pa.array(positions))
    return BulkOperations(ids=ids, documents=bodies, lines=bulk_lines(ids, bodies, version))


def bulk_lines(ids: pa.Array, bodies: pa.Array, version: int) -> pa.Array:
    """The lines of operations; a null document is deleted."""
    # A delete of our own version that comes again is harmless, and by `external_gte` it is no conflict: so a conflict
    # of a delete always means that the document is of a later batch.
    index = f'","version":{version},"version_type":"external"}}}}\n'
    delete = f'","version":{version},"version_type":"external_gte"}}}}\n'
    escaped = escaped_texts(ids)
    indexed = joined('{"index":{"_id":"', escaped, index, bodies, "\n")
    deleted = joined('{"delete":{"_id":"', escaped, delete)
    return pc.coalesce(indexed, deleted)


@dataclass(slots=True, kw_only=True)
class BulkResult:
    """Outcome of one call; positions are those of its lines."""

    conflicts: list[int] = field(default_factory=list)  # the document has this version or a later one
    refused_for_good: dict[int, str] = field(default_factory=dict)


class BulkSender:
    """Sends the operations of one part."""

    def __init__(
        self, cluster: Cluster, writer: str, *, bulk_bytes: int, before_each: Callable[[], None] | None = None
    ) -> None:
        self._cluster = cluster
        self._writer = writer
        self._before_each = before_each  # called before each request; an error ends them
        self._most_bytes = self._bytes = bulk_bytes  # of one request; smaller while the cluster is busy
        self.retries = self.refused = self.sent_bytes = 0

    def send(self, lines: pa.Array) -> BulkResult:
        """Send all lines until each is done, in conflict, or refused for good."""
        result = BulkResult()
        pending = np.arange(len(lines))
        sizes = np.diff(_offsets(lines))
        pauses = Pauses()
        while len(pending):
            count = max(int(np.searchsorted(np.cumsum(sizes[pending]), self._bytes, side="right")), 1)
            chunk, rest = pending[:count], pending[count:]
            body = _bytes_of(lines.take(pa.array(chunk)))
            if self._before_each is not None:
                self._before_each()
            answer = self._cluster.send_lines(f"/{self._writer}/_bulk", body, _PARAMS)
            self.sent_bytes += len(body)
            again = self._sort(answer, chunk, result)
            if len(again) < len(chunk):
                pauses.end()
            if len(again):
                self.retries += 1
                # A request too large is cut, which needs no wait.
                if answer.status != 413 and not pauses.wait():
                    raise self._cluster.silent(answer)
            elif self._bytes < self._most_bytes:
                self._bytes = min(2 * self._bytes, self._most_bytes)
            pending = np.concatenate([again, rest])
        return result

    def _sort(self, answer: Answer, chunk: NDArray[np.int64], result: BulkResult) -> NDArray[np.int64]:
        """Record what is final; returns the positions to send again."""
        if answer.is_success:
            return self._sort_items(answer, chunk, result)
        self._cluster.refuse_index_error(self._writer, answer.error_type, answer.fault)
        if answer.status == 413:
            if len(chunk) == 1:
                result.refused_for_good[int(chunk[0])] = "the document is larger than http.max_content_length"
                return chunk[:0]
            self._most_bytes = self._bytes = max(self._bytes // 2, 1)
            return chunk
        if not answer.is_passing:
            raise self._cluster.refusal(f"POST /{self._writer}/_bulk", answer)
        if answer.status == 429:
            self.refused += len(chunk)
        _LOG.info("%s: a bulk request of %d operations is sent again: %s", self._writer, len(chunk), answer.fault)
        self._slow_down()
        return chunk

    def _sort_items(self, answer: Answer, chunk: NDArray[np.int64], result: BulkResult) -> NDArray[np.int64]:
        if answer.body.get("errors") is False:
            return chunk[:0]
        items = answer.body.get("items", ())
        if len(items) != len(chunk):
            # A proxy that cut the answer: the versions make it harmless to send everything again.
            return chunk
        again = []
        for position, item in zip(chunk.tolist(), items, strict=True):
            (outcome,) = item.values()
            if "error" in outcome and self._is_passing(position, outcome, result):
                again.append(position)
        if again:
            self.refused += len(again)
            self._slow_down()
        return np.array(again, np.int64)

    def _is_passing(self, position: int, outcome: Mapping[str, Any], result: BulkResult) -> bool:
        status, error = outcome["status"], outcome["error"]
        if status == 409:
            result.conflicts.append(position)
            return False
        self._cluster.refuse_index_error(self._writer, error["type"], reason_of(error))
        if status == 429 or status >= 500:
            return True
        if status in (401, 403):
            raise self._cluster.refusal(
                f"a write to {self._writer}", Answer(status=status, body={}, fault=reason_of(error))
            )
        result.refused_for_good[position] = reason_of(error)
        return False

    def _slow_down(self) -> None:
        self._bytes = max(self._bytes // 2, min(_SMALLEST_BYTES, self._most_bytes))


def _offsets(lines: pa.Array) -> NDArray[np.int64]:
    return np.frombuffer(lines.buffers()[1], np.int64)[lines.offset : lines.offset + len(lines) + 1]


def _bytes_of(lines: pa.Array) -> bytes:
    offsets = _offsets(lines)
    return lines.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes()


_MOST_ROWS: Final = 20_000
_MOST_BYTES: Final = 8 * 2**20
"""Rows whose documents are made at a time: their texts, lines and copies of them take ten times as much."""


def _is_content(document: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """True if these fields are stored; an ingest pipeline may have added others."""
    own = {name: value for name, value in stored.items() if name in document}
    return own == document and (DELETED in stored) == (DELETED in document)


@dataclass(kw_only=True)
class PartDeliverer:
    """Delivers one part."""

    cluster: Cluster
    settings: OpenSearchSettings
    letters: DeadLetterFolder | None
    claims: Claims
    batch: ProvenBatch
    begun: Mapping[str, Any]  # of `OpenSearchSink.begin`
    part: StagedPart
    _counts: Counter[str] = field(default_factory=Counter)
    _refused: list[DeadLetter] = field(default_factory=list)

    def deliver(self) -> PartDelivery:
        """Send everything; errors are those of `Sink.deliver`."""
        # An index forgets hard deletions, so versions alone do not keep a late write from bringing a row back.
        is_hard = self.settings.deletes == "hard"
        before_each = partial(self.claims.refuse_superseded, self.batch, self.begun) if is_hard else None
        sender = BulkSender(
            self.cluster, self.begun["writer"], bulk_bytes=self.settings.bulk_bytes, before_each=before_each
        )
        found = key_operations(
            self._read, identity=self.batch.identity, hash_key=self.batch.hash_key, duplicates=self.settings.duplicates
        )
        for each in found:
            version, deletes = self.begun["version"], self.settings.deletes
            self._send(bulk_operations(each, batch=self.batch, version=version, deletes=deletes), sender)
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
        self._counts["operations"] += len(operations.ids)
        positions: Sequence[int] = range(len(operations.ids))
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
                version=self.begun["version"],
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
        stored = chain.from_iterable(stored_documents(self.cluster, self.begun["writer"], ids))
        for position, found in zip(positions, stored, strict=True):
            document = operations.documents[position].as_py()
            content = None if document is None else json.loads(document)
            outcome = self._outcome(content, found)
            if outcome is None:
                again.append(position)
            else:
                self._counts[outcome] += 1
        return again

    def _outcome(self, content: Mapping[str, Any] | None, found: Mapping[str, Any]) -> str | None:
        """The count for a write that was refused, or a deletion without `content`; None: send it again.

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
        """
        stored, version = found["_version"] if found["found"] else None, self.begun["version"]
        if stored is not None and stored < version:
            return None
        if stored == version:
            is_ours = content is not None and _is_content(content, found["_source"])
            return "repeated" if is_ours else self._other_content(found)
        # Asked after the document was read: a batch notes that it begins before it writes.
        latest = self.claims.progress()
        begun = None if latest is None else latest.version
        if stored is None and begun == version and content is not None and DELETED in content:
            return "repeated"
        if begun is not None and (begun <= version if stored is None else begun < stored):
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
