"""Fetching: a reduce range's blocks by ranged reads, proven whole before they are decoded."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from icefloe.errors import IcefloeError
from icefloe.shuffle.blocks import CorruptBlockError, decode_block
from icefloe.shuffle.extents import Extent, RangeExtents
from icefloe.shuffle.map_output_record import CorruptMapOutputError
from icefloe.storage.parallel import map_parallel
from icefloe.storage.store import Store

__all__ = ["FetchedBlock", "fetch_blocks"]


class FetchedBlock(NamedTuple):
    """The rows of one map task for one reduce partition."""

    reduce_id: int
    map_id: int
    batches: list[pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchWindow:
    """The blocks that are fetched and held at once.

    Attributes:
        start: the first position of a reduce partition in the range.
        stop: the position after the last.
        extents: the map outputs to read; a partition too large for memory takes several windows of one partition.
    """

    start: int
    stop: int
    extents: tuple[Extent, ...]


def plan_fetch(extents: RangeExtents, *, max_fetch_bytes: int) -> Iterator[FetchWindow]:
    """Windows of about ``max_fetch_bytes`` of blocks that cover the range once, in the order of its partitions."""
    # Partitions of 3, 4, 9, 2 and 2 bytes with at most 8 at once:  3 4 | part of 9 | rest of 9 | 2 2
    totals = [sum(lengths) for lengths in zip(*(each.block_lengths for each in extents.extents), strict=True)]
    start, size = 0, 0
    for position, total in enumerate(totals):
        if size and size + total > max_fetch_bytes:
            yield FetchWindow(start=start, stop=position, extents=extents.extents)
            start, size = position, 0
        if total > max_fetch_bytes:
            yield from _windows_of_one(extents.extents, position, max_fetch_bytes)
            start = position + 1
        else:
            size += total
    if size:
        yield FetchWindow(start=start, stop=len(totals), extents=extents.extents)


def fetch_blocks(
    store: Store, extents: RangeExtents, schema: pa.Schema, *, max_fetch_bytes: int
) -> Iterator[FetchedBlock]:
    """The blocks of a range: all of its first reduce partition, in the order of the extents, then of the next.

    Args:
        store: the place of the shuffle's map outputs.
        extents: extents to read.
        schema: schema of the rows in the blocks (`block_schema`).
        max_fetch_bytes: compressed bytes held at once; a single block may exceed it.

    Raises:
        CorruptMapOutputError: names the map output to void; the blocks yielded before were proven whole.
        TransientError: the store did not answer.
    """
    for window in plan_fetch(extents, max_fetch_bytes=max_fetch_bytes):
        needed = [each for each in window.extents if any(each.block_lengths[window.start : window.stop])]
        fetched = map_parallel(partial(_read, store, window), needed, at_once=store.requests_at_once)
        yield from _decoded(extents.start, window, needed, fetched, schema)


def _decoded(
    first_reduce_id: int, window: FetchWindow, extents: Sequence[Extent], fetched: list[memoryview], schema: pa.Schema
) -> Iterator[FetchedBlock]:
    # One partition of all map outputs before the next, so that a reader can finish a partition and forget its rows.
    # What is left of an extent begins with its next block, because blocks are in the order of the partitions.
    for position in range(window.start, window.stop):
        for number, extent in enumerate(extents):
            length = extent.block_lengths[position]
            if length:
                block, fetched[number] = fetched[number][:length], fetched[number][length:]
                reduce_id = first_reduce_id + position
                yield FetchedBlock(reduce_id, extent.map_id, _decode(block, extent, position, reduce_id, schema))


def _windows_of_one(extents: Sequence[Extent], position: int, max_fetch_bytes: int) -> Iterator[FetchWindow]:
    group: list[Extent] = []
    size = 0
    for each in extents:
        length = each.block_lengths[position]
        if group and size + length > max_fetch_bytes:
            yield FetchWindow(start=position, stop=position + 1, extents=tuple(group))
            group, size = [], 0
        if length:
            group.append(each)
            size += length
    yield FetchWindow(start=position, stop=position + 1, extents=tuple(group))


def _read(store: Store, window: FetchWindow, extent: Extent) -> memoryview:
    start = extent.offset + sum(extent.block_lengths[: window.start])
    stop = start + sum(extent.block_lengths[window.start : window.stop])
    try:
        [data] = store.get_ranges(extent.data_key, [(start, stop)])
    except IcefloeError as cause:
        # The error alone does not say whose fault it is: stores answer a range beyond the end in many ways. If the file
        # has its planned size, it is the store's fault and may go away; otherwise the map task must run again.
        found_bytes = store.size(extent.data_key)
        if found_bytes == extent.data_size_bytes:
            raise
        shortage = f"has {found_bytes} bytes, expected {extent.data_size_bytes}"
        reason = f"{extent.data_key} {'is gone' if found_bytes is None else shortage}"
        raise CorruptMapOutputError.of(extent.map_id, extent.generation, reason) from cause
    if len(data) != stop - start:
        reason = f"{extent.data_key} answered {len(data)} bytes for {start} to {stop}"
        raise CorruptMapOutputError.of(extent.map_id, extent.generation, reason)
    return memoryview(data)


def _decode(
    block: memoryview, extent: Extent, position: int, reduce_id: int, schema: pa.Schema
) -> list[pa.RecordBatch]:
    if zlib.crc32(block) != extent.block_crc32[position]:
        reason = f"the block of reduce partition {reduce_id} does not match its checksum"
        raise CorruptMapOutputError.of(extent.map_id, extent.generation, reason)
    try:
        batches = decode_block(block, schema, max_bytes=extent.largest_block_bytes)
    except CorruptBlockError as cause:
        raise CorruptMapOutputError.of(extent.map_id, extent.generation, cause.reason) from cause
    rows = sum(batch.num_rows for batch in batches)
    if rows != extent.block_rows[position]:
        reason = f"the block of reduce partition {reduce_id} has {rows} rows, expected {extent.block_rows[position]}"
        raise CorruptMapOutputError.of(extent.map_id, extent.generation, reason)
    return batches
