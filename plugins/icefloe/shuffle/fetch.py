"""Fetching: a reduce range's blocks by ranged reads, proven whole before they are decoded.

The store is asked once for each map output, a node once for all its map outputs.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import IcefloeError
from icefloe.node.machine import Machine
from icefloe.shuffle.blocks import CorruptBlockError, decode_block
from icefloe.shuffle.extents import RangeExtents, ShuffledFile
from icefloe.shuffle.map_output_record import CorruptMapOutputError
from icefloe.shuffle.node_outputs import NodeOutputsLostError, found_or_lost, node_of, read_from_node, whole_damage
from icefloe.storage.parallel import map_parallel
from icefloe.storage.store import Store

__all__ = ["FetchedBlock", "fetch_blocks"]


class FetchedBlock(NamedTuple):
    """The rows of one map task for one reduce partition."""

    reduce_id: int
    map_id: int
    batches: list[pa.RecordBatch]


class _Run(NamedTuple):
    """Neighbouring blocks of one map output."""

    output: int
    file: ShuffledFile
    start: int
    stop: int


def plan_fetch(extents: RangeExtents, *, max_fetch_bytes: int) -> Iterator[NDArray[np.int64]]:
    """Windows of about ``max_fetch_bytes``: places in ``extents.blocks`` that are fetched and held at once.

    All windows together are the blocks of the first reduce partition by map output, then those of the next.
    """
    # Blocks of 3, 4, 9, 2 and 2 bytes with at most 8 at once:  3 4 | 9 | 2 2
    order = np.argsort(extents.blocks["reduce_id"], kind="stable")
    ends = np.cumsum(extents.blocks["length"][order])
    start = 0
    while start < len(order):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + max_fetch_bytes, side="right")))
        yield order[start:stop]
        start = stop


def fetch_blocks(
    store: Store,
    extents: RangeExtents,
    schema: pa.Schema,
    *,
    max_fetch_bytes: int,
    machine: Machine | None = None,
) -> Iterator[FetchedBlock]:
    """The blocks of a range: all of its first reduce partition, in the order of the extents, then of the next.

    Args:
        store: the place of the shuffle's map outputs.
        extents: extents to read.
        schema: schema of the rows in the blocks (`block_schema`).
        max_fetch_bytes: compressed bytes held at once; a single block may exceed it.
        machine: reads the map outputs that are at nodes; None: as the environment of this process says.

    Raises:
        CorruptMapOutputError: names the map output to void; the blocks yielded before were proven whole.
        TransientError: the store did not answer.
    """
    machine = machine or Machine()

    def fetched(runs: Sequence[_Run]) -> list[memoryview] | NodeOutputsLostError:
        if not node_of(runs[0].file):
            return [_read(store, run) for run in runs]
        try:
            return read_from_node(machine, extents.files, [(run.file, run.start, run.stop) for run in runs])
        except NodeOutputsLostError as lost:
            # A value, so that all nodes that are lost are known at once.
            return lost

    for window in plan_fetch(extents, max_fetch_bytes=max_fetch_bytes):
        requests = _requests(_runs(extents, window))
        answers = found_or_lost(map_parallel(fetched, requests, at_once=store.requests_at_once))
        of_output = {
            run.output: (run, data)
            for runs, answer in zip(requests, answers, strict=True)
            for run, data in zip(runs, answer, strict=True)
        }
        # One partition of all map outputs before the next, so that a reader can finish a partition and forget its rows.
        for output, reduce_id, crc32, offset, length, rows in extents.blocks[window].tolist():
            run, data = of_output[output]
            block = data[offset - run.start : offset - run.start + length]
            try:
                batches = _decode(block, run.file, reduce_id, schema, crc32=crc32, rows=rows)
            except CorruptMapOutputError as damage:
                raise whole_damage(damage, extents.files, run.file) from damage
            yield FetchedBlock(reduce_id, run.file.map_id, batches)


def _runs(extents: RangeExtents, window: NDArray[np.int64]) -> list[_Run]:
    """The bytes of a window in each map output, which are one piece: its blocks are neighbours in the data file."""
    blocks = extents.blocks[np.sort(window)]
    first = np.flatnonzero(np.diff(blocks["output"].astype(np.int64), prepend=-1))
    last = np.append(first[1:], len(blocks)) - 1
    stops = blocks["offset"][last] + blocks["length"][last]
    found = zip(blocks["output"][first].tolist(), blocks["offset"][first].tolist(), stops.tolist(), strict=True)
    return [_Run(output, extents.files[output], start, stop) for output, start, stop in found]


def _requests(runs: Sequence[_Run]) -> list[list[_Run]]:
    """The bytes of a window by request: one for each map output in the store, one for each node."""
    requests = [[run] for run in runs if not node_of(run.file)]
    of_node: dict[str, list[_Run]] = {}
    for run in runs:
        if address := node_of(run.file):
            of_node.setdefault(address, []).append(run)
    return [*requests, *of_node.values()]


def _read(store: Store, run: _Run) -> memoryview:
    file, start, stop = run.file, run.start, run.stop
    try:
        [data] = store.get_ranges(file.data_key, [(start, stop)])
    except IcefloeError as cause:
        # The error alone does not say whose fault it is: stores answer a range beyond the end in many ways. If the file
        # has its planned size, it is the store's fault and may go away; otherwise the map task must run again.
        found_bytes = store.size(file.data_key)
        if found_bytes == file.data_size_bytes:
            raise
        shortage = f"has {found_bytes} bytes, expected {file.data_size_bytes}"
        raise _corrupt(file, f"{file.data_key} {'is gone' if found_bytes is None else shortage}") from cause
    if len(data) != stop - start:
        raise _corrupt(file, f"{file.data_key} answered {len(data)} bytes for {start} to {stop}")
    return memoryview(data)


def _decode(
    block: memoryview, file: ShuffledFile, reduce_id: int, schema: pa.Schema, *, crc32: int, rows: int
) -> list[pa.RecordBatch]:
    if zlib.crc32(block) != crc32:
        raise _corrupt(file, f"the block of reduce partition {reduce_id} does not match its checksum")
    try:
        batches = decode_block(block, schema, max_bytes=file.largest_block_bytes)
    except CorruptBlockError as cause:
        raise _corrupt(file, cause.reason) from cause
    found = sum(batch.num_rows for batch in batches)
    if found != rows:
        raise _corrupt(file, f"the block of reduce partition {reduce_id} has {found} rows, expected {rows}")
    return batches


def _corrupt(file: ShuffledFile, reason: str) -> CorruptMapOutputError:
    return CorruptMapOutputError.of(file.map_id, file.generation, reason)
