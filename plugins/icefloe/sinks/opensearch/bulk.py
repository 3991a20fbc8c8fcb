"""Bulk requests, and how a busy cluster takes them."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.sinks.batch_to_deliver import ProvenBatch, column_paths
from icefloe.sinks.json_texts import escaped_texts
from icefloe.sinks.key_changes import KeyOperations
from icefloe.sinks.opensearch.cluster import Answer, Cluster, Pauses, reason_of
from icefloe.sinks.opensearch.row_documents import deletion_markers, document_ids, documents

_TEXT: Final = pa.large_string()
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

    def __len__(self) -> int:
        return len(self.ids)


def bulk_operations(
    operations: KeyOperations, *, batch: ProvenBatch, version: int, deletes: Literal["soft", "hard"]
) -> BulkOperations:
    """The operations that bring documents up to date."""
    ids = document_ids(operations.rows, batch.identity)
    is_live = operations.is_live
    live = documents(batch.shown_rows(operations.rows.filter(pa.array(is_live))))
    gone_rows = operations.rows.filter(pa.array(~is_live))
    if deletes == "hard":
        gone = pa.nulls(gone_rows.num_rows, _TEXT)
    else:
        gone_at = operations.committed_at.filter(pa.array(~is_live))
        shown = {".".join(path) for path in column_paths(batch.shown_schema)}
        gone = deletion_markers(gone_rows, gone_at, [name for name in batch.identity if name in shown])
    bodies = _merged(is_live, live, gone)
    return BulkOperations(ids=ids, documents=bodies, lines=bulk_lines(ids, bodies, version))


def bulk_lines(ids: pa.Array, bodies: pa.Array, version: int) -> pa.Array:
    """The lines of operations; a null document is deleted."""
    # A delete of our own version that comes again is harmless, and by `external_gte` it is no conflict: so a conflict
    # of a delete always means that the document is of a later batch.
    index = pa.scalar(f'","version":{version},"version_type":"external"}}}}\n', _TEXT)
    delete = pa.scalar(f'","version":{version},"version_type":"external_gte"}}}}\n', _TEXT)
    nothing = pa.scalar("", _TEXT)
    escaped = escaped_texts(ids)
    indexed = pc.binary_join_element_wise(
        pa.scalar('{"index":{"_id":"', _TEXT), escaped, index, bodies, pa.scalar("\n", _TEXT), nothing
    )
    deleted = pc.binary_join_element_wise(pa.scalar('{"delete":{"_id":"', _TEXT), escaped, delete, nothing)
    return pc.coalesce(indexed, deleted)


def _merged(is_first: NDArray[np.bool_], first: pa.Array, second: pa.Array) -> pa.Array:
    positions = np.where(is_first, np.cumsum(is_first) - 1, len(first) + np.cumsum(~is_first) - 1)
    return pa.concat_arrays([first, second]).take(pa.array(positions))


@dataclass(slots=True, kw_only=True)
class BulkResult:
    """Outcome of one call; positions are those of its lines.

    Attributes:
        conflicts: the document has this version or a later one.
    """

    conflicts: list[int] = field(default_factory=list)
    refused_for_good: dict[int, str] = field(default_factory=dict)


class BulkSender:
    """Sends the operations of one part.

    Args:
        bulk_bytes: size of one request; smaller while the cluster is busy.
        before_each: called before each request; an error ends them.
    """

    def __init__(
        self, cluster: Cluster, writer: str, *, bulk_bytes: int, before_each: Callable[[], None] | None = None
    ) -> None:
        self._cluster = cluster
        self._writer = writer
        self._before_each = before_each
        self._most_bytes = self._bytes = bulk_bytes
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
