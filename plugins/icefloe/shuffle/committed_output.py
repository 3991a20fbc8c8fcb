"""Committed map outputs: a commit record with its index file, checked against it."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import IcefloeError
from icefloe.shuffle.index_file import (
    PartitionStatistics,
    decode_index,
    decode_statistics,
    index_bytes,
)
from icefloe.shuffle.map_output_log import CorruptMapOutputError, MapOutputRecord, StoredFile, schema_fingerprint
from icefloe.shuffle.partitions import NUM_PARTS, BlockNumbers
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import KeyMissingError, Store

__all__ = ["read_committed_outputs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOutput:
    """One map task's output, whole as far as its small files show.

    Attributes:
        offsets: int64, one more than blocks.
        blocks: None unless they were read with their index.
    """

    record: MapOutputRecord
    numbers: BlockNumbers
    offsets: NDArray[np.int64]
    statistics: PartitionStatistics
    block_crc32: NDArray[np.uint32]
    blocks: bytes | None = None

    @property
    def partition_statistics(self) -> PartitionStatistics:
        return self.statistics.renumbered(self.numbers.reduce_ids()) if self.numbers.divided else self.statistics

    def part_statistics(self, reduce_id: int) -> PartitionStatistics:
        first = int(self.numbers.firsts()[reduce_id])
        return self.statistics.between(first, first + NUM_PARTS)


def read_committed_output(
    store: Store,
    record: MapOutputRecord,
    *,
    schema: pa.Schema,
    num_partitions: int,
    hash_partitions: int = 0,
    with_blocks: bool = False,
) -> CommittedOutput:
    """Reads and checks the files that a commit record names, except a data file of its own."""
    if record.data is None or record.index is None:
        raise _corrupt(record, "its commit record names no shuffle files")
    if (record.num_partitions, record.schema_fingerprint) != (num_partitions, schema_fingerprint(schema)):
        raise _corrupt(record, "it was written for another number of partitions or another schema")
    if record.hash_partitions != hash_partitions:
        raise _corrupt(record, "it was written for another number of hash partitions")
    # Not even the size of the data file, which takes a request: whoever fetches a block finds out whether it is there,
    # by its checksum, and then all engines make again what is lost, not this process alone.
    numbers = BlockNumbers(num_partitions=num_partitions + hash_partitions, divided=record.divided)
    joined = _read_joined(store, record, record.index, with_blocks=with_blocks) if record.blocks_at else None
    index, blocks = joined or (_read(store, record, record.index), None)
    index, entries = index[: index_bytes(len(numbers))], index[index_bytes(len(numbers)) :]
    try:
        offsets = decode_index(index, num_blocks=len(numbers), data_size_bytes=record.data.size_bytes)
        statistics, block_crc32 = decode_statistics(entries, num_partitions=len(numbers))
    except ValueError as cause:
        raise _corrupt(record, str(cause)) from cause
    if not np.array_equal(np.flatnonzero(np.diff(offsets)), np.unique(statistics.reduce_ids)):
        raise _corrupt(record, "index and statistics name different reduce partitions")
    blocks_of_rows = len(numbers) - hash_partitions
    if statistics.sums(0, blocks_of_rows) != record.ordinals:
        raise _corrupt(record, "statistics and commit record do not add up to the same")
    # Every row has a hash row. One that was missing would leave a row that equal rows of other identities cancel.
    if hash_partitions and statistics.sums(blocks_of_rows, len(numbers)) != record.ordinals:
        raise _corrupt(record, "hash rows and commit record do not add up to the same")
    return CommittedOutput(
        record=record, numbers=numbers, offsets=offsets, statistics=statistics, block_crc32=block_crc32, blocks=blocks
    )


def read_committed_outputs(
    store: Store,
    records: Sequence[MapOutputRecord],
    *,
    schema: pa.Schema,
    num_partitions: int,
    hash_partitions: int = 0,
    most_block_bytes: int = 0,
) -> tuple[list[CommittedOutput], list[CorruptMapOutputError]]:
    """The whole outputs in order, and an error per damaged one.

    The first outputs that share one file with their index are read with their blocks, ``most_block_bytes`` in all.
    """
    with_blocks = _first_joined(records, most_block_bytes)

    def read(record: MapOutputRecord) -> CommittedOutput | CorruptMapOutputError:
        try:
            return read_committed_output(
                store, record, schema=schema, num_partitions=num_partitions, hash_partitions=hash_partitions,
                with_blocks=record.map_id in with_blocks,
            )  # fmt: skip
        except CorruptMapOutputError as damage:
            return damage

    results = map_parallel(read, records, at_once=store.requests_at_once)
    whole = [each for each in results if isinstance(each, CommittedOutput)]
    return whole, [each for each in results if isinstance(each, CorruptMapOutputError)]


def _first_joined(records: Sequence[MapOutputRecord], most_block_bytes: int) -> set[int]:
    joined = [record for record in records if record.blocks_at and record.data is not None]
    ends = np.cumsum([record.data.size_bytes for record in joined if record.data is not None])
    return {record.map_id for record, end in zip(joined, ends.tolist(), strict=True) if end <= most_block_bytes}


def _read_joined(
    store: Store, record: MapOutputRecord, index: StoredFile, *, with_blocks: bool
) -> tuple[bytes, bytes | None]:
    if not with_blocks:
        size_bytes = index.size_bytes + (record.data.size_bytes if record.data else 0)
        data = read_piece(
            store, index.key, 0, index.size_bytes, size_bytes=size_bytes, damage=partial(_corrupt, record)
        )
        return _whole(record, index, data), None
    data = _get(store, record, index.key)
    blocks = data[index.size_bytes :]
    if record.data is not None:
        _whole(record, record.data, blocks)
    return _whole(record, index, data[: index.size_bytes]), blocks


def _read(store: Store, record: MapOutputRecord, file: StoredFile) -> bytes:
    return _whole(record, file, _get(store, record, file.key))


def _get(store: Store, record: MapOutputRecord, key: str) -> bytes:
    try:
        return store.get(key)
    except KeyMissingError as cause:
        raise _corrupt(record, f"{key} is gone") from cause


def _whole(record: MapOutputRecord, file: StoredFile, data: bytes) -> bytes:
    if (len(data), zlib.crc32(data)) != (file.size_bytes, file.crc32):
        raise _corrupt(record, f"{file.key} does not match the size and checksum of the commit record")
    return data


def _corrupt(record: MapOutputRecord, reason: str) -> CorruptMapOutputError:
    return CorruptMapOutputError.of(record.map_id, record.generation, reason)


def read_piece(
    store: Store, key: str, start: int, stop: int, *, size_bytes: int, damage: Callable[[str], CorruptMapOutputError]
) -> bytes:
    try:
        [data] = store.get_ranges(key, [(start, stop)])
    except IcefloeError as cause:
        # The error alone does not say whose fault it is: stores answer a range beyond the end in many ways. If the file
        # has its planned size, it is the store's fault and may go away; otherwise the map task must run again.
        found_bytes = store.size(key)
        if found_bytes == size_bytes:
            raise
        shortage = f"has {found_bytes} bytes, expected {size_bytes}"
        raise damage(f"{key} {'is gone' if found_bytes is None else shortage}") from cause
    if len(data) != stop - start:
        raise damage(f"{key} answered {len(data)} bytes for {start} to {stop}")
    return data
