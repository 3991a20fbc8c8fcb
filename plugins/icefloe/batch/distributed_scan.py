"""The changes of a range for an engine that has a shuffle of its own: nothing is stored where other tasks look.

Tasks are plain functions from rows to rows:

    inserted                                          a range that removes no row
    mapped -> [moved ->] reduced                      others; an arrow is a shuffle by recipient

`moved` is needed if the delivered columns lack the identity: its recipients are hash partitions (`shuffle.blocks`), and
it passes on the parcels of others.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, Final, Self

import numpy as np
import pyarrow as pa

from icefloe.batch.context.batch_folder import BatchFolder, MapInputs
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.map.write_part import inserted_rows
from icefloe.batch.parcels import ParcelHeader, received, sent
from icefloe.batch.plan.make_plan import PlannedBatch
from icefloe.batch.plan_document import Plan, tasks_key
from icefloe.batch.reduce.moves import found_moves, hash_rows
from icefloe.batch.reduce.read_range import changes_of_rows
from icefloe.batch.rows.file_effects import Sums
from icefloe.batch.staged_changes import StagedChanges
from icefloe.documents import dump_document
from icefloe.iceberg.catalog.file_io import FileIO
from icefloe.shuffle.block_file import SpilledRows
from icefloe.shuffle.blocks import BlockRows, HashRows
from icefloe.shuffle.coalesce import CoalescePlan
from icefloe.storage.local_folders import on_local_disk, scratch_file, task_folder
from icefloe.storage.location import open_store

MEMORY_BYTES: Final = 2**30
"""Of one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedScan:
    """A planned range. It is pickled, with the credentials of its FileIO.

    Each task proves its part: a recipient has the parcels of all tasks, or none at all, which nobody misses; changes
    add up to the sums that came with them.
    """

    plan: Plan
    documents: bytes  # of all map tasks
    io: FileIO

    @classmethod
    def of(cls, planned: PlannedBatch, io: FileIO) -> Self:
        """The tasks of a planned batch."""
        return cls(plan=planned.plan, documents=b"".join(map(dump_document, planned.tasks)), io=io)

    @property
    def map_ids(self) -> list[int]:
        """The largest task first."""
        return np.argsort([-size for size in self.plan.map_task_bytes], kind="stable").tolist()

    def inserted(self, map_id: int) -> Iterator[pa.RecordBatch]:
        """The changes of a map task."""
        with self._folder() as (folder, _):
            inputs = MapInputs(folder=folder, io=self.io)
            yield from inserted_rows(inputs, map_id, StagedChanges(folder, with_batch=False))

    def mapped(self, map_id: int) -> Iterator[pa.RecordBatch]:
        """The parcels of a map task."""
        with self._folder() as (folder, path):
            record = write_map_output(MapInputs(folder=folder, io=self.io), map_id)
            [output], _ = folder.map_outputs.read(
                [record],
                schema=BlockRows.schema(folder.shape.shuffled_schema),
                num_partitions=self.plan.num_partitions,
                hash_partitions=self.plan.hash_partitions,
            )
            figures = zip(
                output.statistics.partition_rows(len(output.block_crc32)).tolist(),
                np.diff(output.offsets).tolist(),
                output.block_crc32.tolist(),
                strict=True,
            )
            headers = (
                ParcelHeader(
                    rows=rows,
                    size_bytes=size_bytes,
                    crc32=crc32,
                    largest_block_bytes=record.largest_block_bytes,
                    ordinals=output.statistics.sums(block, block + 1),
                )
                for block, (rows, size_bytes, crc32) in enumerate(figures)
            )
            # The record of a map output has data, as `read` found.
            with (path / (record.data.key if record.data else "")).open("rb") as file:
                file.seek(record.blocks_at)
                yield from sent(map_id, file, headers)

    def moved(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Parcels of moves in place of those of hash rows; others are passed on."""
        for is_passed, some in groupby(self._by_kind(batches), key=itemgetter(0)):
            parcels = (batch for _, batch in some)
            yield from parcels if is_passed else self._moves(parcels)

    def reduced(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Changes, from the parcels of some reduce partitions."""
        plan = self.plan
        with self._folder() as (folder, path):
            for _, rows, moves in received(batches, path, mappers=plan.num_map_tasks, movers=plan.hash_partitions):
                if rows.rows:
                    staged = StagedChanges(folder, with_batch=False)
                    yield from changes_of_rows(folder, rows, hash_rows(folder, moves), staged)

    def _by_kind(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[bool, pa.RecordBatch]]:
        for batch in batches:
            hash_rows_at = int(np.searchsorted(batch.column(0), self.plan.num_partitions))
            for is_passed, some in ((True, batch.slice(0, hash_rows_at)), (False, batch.slice(hash_rows_at))):
                if some.num_rows:
                    yield is_passed, some

    def _moves(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = self.plan
        # Each partition is a range: another engine does not coalesce by sizes that all tasks know.
        each = np.ones(plan.num_partitions + plan.hash_partitions, np.int64)
        ranges = CoalescePlan.of(each, num_partitions=plan.num_partitions, target_size_bytes=1, min_ranges=1)
        with self._folder() as (folder, path):
            for recipient, extents, _ in received(batches, path, mappers=plan.num_map_tasks):
                with found_moves(folder, extents, ranges) as found, scratch_file((path / "moves").open("w+b")) as file:
                    with on_local_disk(f"the moves of a task cannot be kept in {path}"):
                        headers = move_headers(found, file)
                        file.seek(0)
                    yield from sent(plan.num_map_tasks + recipient - plan.num_partitions, file, headers)

    @contextmanager
    def _folder(self) -> Iterator[tuple[BatchFolder, Path]]:
        """A folder of this task alone, as a batch has one, and its path."""
        with task_folder("scan") as path:
            store = open_store(path.as_uri())
            store.put(tasks_key(self.plan.map_task_digests), self.documents)
            filter_text = self.plan.spec.filter
            yield BatchFolder(plan=self.plan, store=store, memory_bytes=MEMORY_BYTES, filter_text=filter_text), path


def move_headers(found: SpilledRows, file: BinaryIO) -> list[ParcelHeader]:
    """Writes the moves of each range as a block; returns their headers."""
    sums = [Sums() for _ in found.rows]
    for number in np.flatnonzero(found.rows).tolist():
        for rows in map(HashRows.of, found.batches(number)):
            sums[number].add_rows(rows.row_hashes, rows.change_ordinals, rows.weights)
    blocks = found.written_to(file)
    figures = zip(found.rows.tolist(), np.diff(blocks.offsets).tolist(), blocks.block_crc32.tolist(), sums, strict=True)
    largest = int(blocks.content_bytes.max(initial=0))
    return [
        ParcelHeader(
            rows=rows, size_bytes=size_bytes, crc32=crc32, largest_block_bytes=largest, ordinals=of.to_documents()
        )
        for rows, size_bytes, crc32, of in figures
    ]
