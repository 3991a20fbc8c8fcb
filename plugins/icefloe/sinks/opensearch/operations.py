"""The lines of a bulk request."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.dotted_names import column_paths
from icefloe.sinks.key_changes import KeyOperations
from icefloe.sinks.opensearch.document_ids import document_ids
from icefloe.sinks.opensearch.row_documents import deletion_markers, documents, json_escaped

_TEXT: Final = pa.large_string()


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOperations:
    """Operations on different documents.

    Attributes:
        ids: of the documents.
        documents: as JSON; null for one that is deleted.
        lines: of the bulk request: the action, and the document if there is one.
    """

    ids: pa.Array
    documents: pa.Array
    lines: pa.Array

    def __len__(self) -> int:
        return len(self.ids)


def bulk_operations(
    operations: KeyOperations,
    *,
    batch: ProvenBatch,
    version: int,
    deletes: Literal["soft", "hard"],
) -> BulkOperations:
    """The bulk operations that bring documents to the state of their keys.

    Args:
        operations: one for each key.
        batch: their batch, which says what a document shows.
        version: of the documents.
        deletes: what becomes of the document of a removed key.
    """
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
    """The lines of operations; a document that is null is deleted."""
    # A delete of our own version that comes again is harmless, and by `external_gte` it is no conflict: so a conflict
    # of a delete always means that the document is of a later batch.
    index = pa.scalar(f'","version":{version},"version_type":"external"}}}}\n', _TEXT)
    delete = pa.scalar(f'","version":{version},"version_type":"external_gte"}}}}\n', _TEXT)
    nothing = pa.scalar("", _TEXT)
    escaped = json_escaped(ids)
    indexed = pc.binary_join_element_wise(
        pa.scalar('{"index":{"_id":"', _TEXT), escaped, index, bodies, pa.scalar("\n", _TEXT), nothing
    )
    deleted = pc.binary_join_element_wise(pa.scalar('{"delete":{"_id":"', _TEXT), escaped, delete, nothing)
    return pc.coalesce(indexed, deleted)


def _merged(is_first: NDArray[np.bool_], first: pa.Array, second: pa.Array) -> pa.Array:
    """The values of two arrays in the order that a mask gives."""
    positions = np.where(is_first, np.cumsum(is_first) - 1, len(first) + np.cumsum(~is_first) - 1)
    return pa.concat_arrays([first, second]).take(pa.array(positions))
