"""Ranges of keys of a batch that is delivered in an order: parts are divided once, then each range is a task.

deliveries/bounds.json                    the keys at which ranges begin, drawn once from all parts
deliveries/<cut>/<part>.json              names the blocks of a staged part; the first record counts
deliveries/<cut>/<part>.<attempt>.data    a block for each range
deliveries/<cut>/ranges                   the extents of all ranges, so that each reads no record of a part
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

import pyarrow as pa

from icefloe.batch.context.batch_folder import BatchFolder, find_batch_document
from icefloe.changes.columns import ChangeColumns
from icefloe.documents import Document, dump_document
from icefloe.errors import TransientError
from icefloe.shuffle.block_file import SpilledRows
from icefloe.shuffle.committed_output import CorruptMapOutputError
from icefloe.shuffle.extents import RangeExtents, StoredExtents
from icefloe.shuffle.fetch import fetch_blocks
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import Manifest, Part
from icefloe.sinks.sink import Sink
from icefloe.storage.local_folders import on_local_disk, task_folder
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import KeyMissingError, RangeMissingError, Store

_BOUNDS_KEY: Final = "deliveries/bounds.json"
_MOST_RANGES: Final = 512
_RECORDS_AT_ONCE: Final = 128
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeBounds(Document):
    """``deliveries/bounds.json``."""

    version: Literal[1] = 1
    bounds: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedPart(Document):
    """The blocks of a staged part in a file, by range."""

    version: Literal[1] = 1
    key: str
    offsets: tuple[int, ...]
    crc32: tuple[int, ...]
    rows: tuple[int, ...]
    largest_block_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRanges:
    """A batch in the order of its sink.

    Attributes:
        parts: as the sink is given them, but for their order.
        bounds: the first key of each range but the first one; empty: nothing is divided.
    """

    folder: BatchFolder
    sink: Sink
    batch: ProvenBatch
    parts: Sequence[StagedPart]
    bounds: tuple[bytes, ...]

    @staticmethod
    def bounds_of(
        folder: BatchFolder, sink: Sink, batch: ProvenBatch, *, staged: ChangeFiles, manifest: Manifest
    ) -> tuple[bytes, ...]:
        """The recorded bounds of ranges of about ``target_size_bytes``, or new ones."""
        ranges = sum(part.size_bytes for part in manifest.parts) // folder.plan.spec.target_size_bytes + 1
        if not sink.order_by or sink.commits_once or ranges == 1:
            return ()
        found = _find(RangeBounds, folder.store, _BOUNDS_KEY)
        if found is None:
            order = sink.order(batch)
            names = [*order.columns, ChangeColumns.TYPE]

            def some_keys(part: Part) -> pa.Array:
                return order.sample(staged.read_part(batch.batch_number, part, sampled=names))

            samples = map_parallel(some_keys, manifest.parts)
            found = RangeBounds(bounds=order.bounds(samples, min(ranges, _MOST_RANGES)))
            if not folder.store.create(_BOUNDS_KEY, dump_document(found)):
                found = _find(RangeBounds, folder.store, _BOUNDS_KEY) or found
        return found.bounds

    @staticmethod
    def undivided(store: Store, batch: ProvenBatch, *, parts: int) -> list[int]:
        """The numbers of parts that are still to be divided."""
        sizes = map_parallel(store.size, [_divided_key(batch, number) for number in range(parts)])
        return [number for number, size in enumerate(sizes) if size is None]

    def divide(self, number: int, *, attempt: str) -> None:
        """Write the rows of a part as a block for each range, unless another attempt was first."""
        order = self.sink.order(self.batch)
        schema, memory_bytes = order.schema(self.batch.schema), self.folder.memory_bytes // 8
        with (
            task_folder("divide") as folder,
            SpilledRows(schema, len(self.bounds) + 1, memory_bytes=memory_bytes) as spilled,
        ):
            for rows in order.keyed(self.parts[number].read()):
                spilled.add(rows, order.places(rows, self.bounds))
            path = folder / "blocks"
            with on_local_disk("the divided rows of a part cannot be kept"), path.open("wb") as file:
                blocks = spilled.written_to(file)
            key = f"{_divided_key(self.batch, number).removesuffix('.json')}.{attempt}.data"
            self.folder.store.put(key, path)
            divided = DividedPart(
                key=key,
                offsets=tuple(blocks.offsets.tolist()),
                crc32=tuple(blocks.block_crc32.tolist()),
                rows=tuple(spilled.rows.tolist()),
                largest_block_bytes=int(blocks.content_bytes.max(initial=0)),
            )
        self.folder.store.create(_divided_key(self.batch, number), dump_document(divided))

    @staticmethod
    def gather(store: Store, batch: ProvenBatch, *, parts: int) -> None:
        """Write the extents of all ranges once all parts are divided; a part may have been divided again since."""

        def divided() -> Iterator[tuple[str, Sequence[int], Sequence[int], Sequence[int], int]]:
            for start in range(0, parts, _RECORDS_AT_ONCE):
                numbers = range(start, min(start + _RECORDS_AT_ONCE, parts))
                for each in map_parallel(lambda number: _divided(store, batch, number), numbers):
                    yield each.key, each.offsets, each.crc32, each.rows, each.largest_block_bytes

        StoredExtents.write(store, _ranges_key(batch), divided())

    def part(self, number: int) -> StagedPart:
        """A range as a part.

        Raises:
            TransientError: a block or the extents are damaged; the next try makes them again.
        """
        try:
            stored = StoredExtents.open(self.folder.store, _ranges_key(self.batch))
            extents = stored.of(number)
        except (KeyMissingError, RangeMissingError, ValueError) as damage:
            raise TransientError(
                f"the ranges of batch {self.batch.batch_number} are damaged ({damage}): run again, and they are "
                "gathered again"
            ) from damage
        order, schema, memory_bytes = self.sink.order(self.batch), self.batch.schema, self.folder.memory_bytes
        return StagedPart(
            number=number,
            first_row=int(stored.ranges["rows"][:number].sum()),
            rows=extents.rows,
            size_bytes=extents.size_bytes,
            read=lambda: order.sorted(lambda: self._rows(extents), schema, memory_bytes=memory_bytes),
        )

    def _rows(self, extents: RangeExtents) -> Iterator[pa.RecordBatch]:
        """The rows of a range with their keys, as the parts have them."""
        folder, schema = self.folder, self.sink.order(self.batch).schema(self.batch.schema)
        try:
            for block in fetch_blocks(
                folder.store, extents, schema, max_fetch_bytes=folder.memory_bytes // 8, machine=folder.machine
            ):
                yield from block.batches
        except CorruptMapOutputError as damage:
            folder.store.delete([_divided_key(self.batch, damage.map_id)])
            raise _lost(self.batch, damage.map_id, damage.reason) from damage


def _divided(store: Store, batch: ProvenBatch, number: int) -> DividedPart:
    found = _find(DividedPart, store, _divided_key(batch, number))
    if found is None:
        # Another task has found it damaged.
        raise _lost(batch, number, "its record is gone")
    return found


def _lost(batch: ProvenBatch, number: int, reason: str) -> TransientError:
    return TransientError(
        f"divided part {number} of batch {batch.batch_number} is damaged ({reason}): run again, and it is divided again"
    )


def _divided_key(batch: ProvenBatch, number: int) -> str:
    return f"deliveries/{batch.cut}/{number:05d}.json"


def _ranges_key(batch: ProvenBatch) -> str:
    return f"deliveries/{batch.cut}/ranges"


def _find(kind: type[_Kind], store: Store, key: str) -> _Kind | None:
    return find_batch_document(kind, store, key, what="the ranges")
