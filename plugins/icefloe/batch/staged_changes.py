"""Changes on their way into a part, and the result of a reduce range."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.context.batch_folder import BatchFolder, find_batch_document
from icefloe.batch.plan_document import result_key
from icefloe.batch.rows.file_effects import Sums
from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.documents import Document, dump_document
from icefloe.shuffle.index_file import OrdinalSums
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import CommitMessage
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import Store

_SIGNS: Final = np.array([kind.weight for kind in ChangeType])
_BATCH_ROWS: Final = 1 << 16
_BATCH_BYTES: Final = 64 << 20


class StagedChanges:
    """The changes of one task: builds the record batches that leave, keeps their sums, writes them as a part."""

    def __init__(self, folder: BatchFolder, *, with_batch: bool = True) -> None:
        spec = folder.plan.spec
        steps = spec.steps
        self._batch_number = folder.plan.batch_number
        self._with_batch = with_batch
        self._snapshot_ids = np.array([step.commit_snapshot_id for step in steps], np.int64)
        self._timestamps_us = np.array([step.commit_timestamp_us for step in steps], np.int64)
        self._properties: pa.MapArray | None = None
        if spec.has_properties:
            entries = [list((step.commit_properties or {}).items()) for step in steps]
            self._properties = pa.array(entries, pa.map_(pa.string(), pa.string()))
        self.by_type = np.zeros(len(ChangeType), np.int64)
        self.sums = Sums()
        self.schema = ChangeColumns.schema(
            folder.shape.delivered.arrow, with_batch=with_batch, with_properties=spec.has_properties
        )

    def batches(
        self,
        rows: pa.RecordBatch,
        hashes: RowHashes,
        picks: NDArray[np.int64],
        change_types: NDArray[np.uint8],
        change_ordinals: NDArray[np.int32],
    ) -> Iterator[pa.RecordBatch]:
        """Changes in batches that fit into any consumer's memory."""
        at_once = min(_BATCH_ROWS, max(1, _BATCH_BYTES * rows.num_rows // max(1, rows.nbytes)))
        for start in range(0, len(picks), at_once):
            picked = picks[start : start + at_once]
            types, ordinals = change_types[start : start + at_once], change_ordinals[picked]
            self.sums.add_rows(hashes.take(picked), ordinals, _SIGNS[types])
            self.by_type += np.bincount(types, minlength=len(ChangeType))
            yield ChangeColumns.batch(
                rows.take(pa.array(picked)),
                change_types=types,
                change_ordinals=ordinals,
                snapshot_ids=self._snapshot_ids,
                timestamps_us=self._timestamps_us,
                properties=self._properties,
                batch_number=self._batch_number if self._with_batch else None,
            )

    def write(self, sink: ChangeFiles, number: int, changes: Iterator[pa.RecordBatch]) -> CommitMessage:
        """Writes the changes as a part."""
        files = sink.write(batch_number=self._batch_number, number=number, schema=self.schema, changes=changes)
        # Only now are counts and sums complete: they grow while the sink takes the changes.
        return CommitMessage.of(number, self.by_type, hash_sum=self.sums.hash_sum(), files=files)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeResult(Document):
    """The changes of one reduce range, written as a part."""

    version: Literal[1] = 1
    range_id: int
    message: CommitMessage
    sums: tuple[OrdinalSums, ...]
    fetched_bytes: int  # compressed, from map outputs
    fetched_blocks: int
    seconds: float

    @classmethod
    def load(cls, store: Store, range_id: int) -> Self | None:
        """The result of a range; None if there is none yet."""
        return find_batch_document(cls, store, result_key(range_id), what="the range result")

    @classmethod
    def load_all(cls, store: Store, range_ids: Sequence[int]) -> list[Self | None]:
        """`load` of each range, in order."""
        return map_parallel(partial(cls.load, store), range_ids)

    @staticmethod
    def delete(store: Store, range_ids: Sequence[int]) -> None:
        """Lets ranges whose parts are gone be read again."""
        store.delete(result_key(range_id) for range_id in range_ids)

    def create(self, store: Store) -> "RangeResult":
        """Records the result unless there is one; returns the one that counts."""
        if store.create(result_key(self.range_id), dump_document(self)):
            return self
        # The record that was first may be gone again: the batch is cleaned up. The fence after this task finds it out.
        return self.load(store, self.range_id) or self
