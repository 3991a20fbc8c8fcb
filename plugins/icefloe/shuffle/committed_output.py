"""Committed map outputs: of each map task the first attempt to commit counts, and its small files are checked.

``<map_id>.<generation>`` is created only if absent and written last; ``<map_id>.<generation>.void`` makes it not
count, and the next generation may commit. ``voids.json`` is created before the first void: while it is missing,
nobody looks for voids. Nothing is found by listing.
"""

import hashlib
import json
import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.documents import Document, dump_document, fields_crc32, load_document
from icefloe.errors import IcefloeError, TransientError
from icefloe.shuffle.index_file import OrdinalSums, PartitionStatistics, decode_index, decode_statistics, index_bytes
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import KeyMissingError, Store

__all__ = ["CorruptMapOutputError", "MapOutputLog", "MapOutputRecord", "MissingMapOutputError"]

logger = logging.getLogger(__name__)


class LostOutputs(NamedTuple):
    """The map outputs of a node that is lost."""

    address: str
    reason: str
    outputs: tuple[tuple[int, int], ...]  # map ids and generations
    is_busy: bool = False  # the node asked a task to come again, for as long as the task could wait


class CorruptMapOutputError(TransientError):
    """A map output is damaged or gone: its generation must be voided and its map task run again.

    Attributes:
        nodes: those that are away, or lost or changed a map output, so that none of their map outputs counts any more;
            None if the map output is in the store.
    """

    is_met_everywhere = True
    map_id: int
    generation: int
    reason: str
    nodes: tuple[LostOutputs, ...] | None = None

    @property
    def outputs(self) -> tuple[tuple[int, int], ...]:
        """Map id and generation of each map output to void."""
        if self.nodes is None:
            return ((self.map_id, self.generation),)
        return tuple(output for node in self.nodes for output in node.outputs)

    @classmethod
    def of(cls, map_id: int, generation: int, reason: str) -> "CorruptMapOutputError":
        """The error of one generation of one map output."""
        return cls(
            f"the output of map task {map_id}, generation {generation}, is damaged: {reason}; the task must run again",
            map_id=map_id, generation=generation, reason=reason,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile(Document):
    """A file of a map output; its key is in the store or, for a data file, at a node."""

    key: str
    size_bytes: int
    crc32: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOutputRecord(Document):
    """The output and the figures of one map task. This document makes its files count.

    Attributes:
        data: blocks; this and the next are None for a task of the insert-only route.
        index: if it has the key of the data, the file is the index and then the blocks.
        hash_partitions: they follow the reduce partitions in all files (`blocks`).
        largest_block_bytes: uncompressed; a reader allocates no more for one block.
        removed_rows_read: of negative weight, in each step that removes them.
        added_rows_read: of positive weight, in each step that adds them.
        carried_over_rows: rows of both that cancelled out.
        bytes_decoded: in Arrow's memory.
        part: an insert-only task's sink commit message.
        crc32: of this document without this key; distinguishes damage from another release.
    """

    version: Literal[1] = 1
    map_id: int
    generation: int
    attempt: str
    data: StoredFile | None = None
    index: StoredFile | None = None
    num_partitions: int = 0
    hash_partitions: int = 0
    schema_fingerprint: str = ""
    largest_block_bytes: int = 0
    rows: int = 0
    ordinals: tuple[OrdinalSums, ...] = ()
    removed_rows_read: int = 0
    added_rows_read: int = 0
    carried_over_rows: int = 0
    bytes_read: int = 0
    bytes_decoded: int = 0
    seconds: float = 0.0
    part: Mapping[str, object] | None = None
    crc32: int = 0

    @property
    def blocks_at(self) -> int:
        """Bytes before the first block in the file that has the blocks."""
        is_joined = self.data is not None and self.index is not None and self.data.key == self.index.key
        return self.index.size_bytes if self.index is not None and is_joined else 0

    def sealed(self) -> "MapOutputRecord":
        """This record with its checksum."""
        return replace(self, crc32=fields_crc32(json.loads(dump_document(self))))

    @classmethod
    def from_json(cls, data: bytes, *, map_id: int, generation: int) -> "MapOutputRecord":
        """The document read for a map task and generation.

        Raises:
            CorruptMapOutputError: damaged, or the record of another task.
        """
        # The checksum before the document's keys: damage means that the map task runs again. A whole record with
        # unknown keys is of a newer release, and voiding it would throw away that release's work.
        try:
            fields = json.loads(data)
            is_whole = isinstance(fields, dict) and fields.get("crc32") == fields_crc32(fields)
        except (RecursionError, ValueError) as cause:
            raise CorruptMapOutputError.of(map_id, generation, "its commit record is not JSON") from cause
        if not is_whole:
            raise CorruptMapOutputError.of(map_id, generation, "its commit record does not match its checksum")
        record = load_document(cls, data, what=f"the commit record {map_id}.{generation}")
        if (record.map_id, record.generation) != (map_id, generation):
            found = f"{record.map_id}.{record.generation}"
            raise CorruptMapOutputError.of(map_id, generation, f"its commit record is for {found}")
        return record


def schema_fingerprint(schema: pa.Schema) -> str:
    """32 hex digits of names, types, nullability and order of the fields, not of metadata.

    >>> first, second = pa.schema([("id", pa.int64())]), pa.schema([("id", pa.int32())])
    >>> schema_fingerprint(first) == schema_fingerprint(second)
    False
    """
    text = schema.to_string(truncate_metadata=False, show_field_metadata=False, show_schema_metadata=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


_COMMIT_TRIES: Final = 10
_VOIDS: Final = "voids.json"
_VOIDS_DOCUMENT: Final = b'{\n "version": 1\n}\n'


class MissingMapOutputError(TransientError):
    """Planned map tasks have no valid commit record."""

    map_ids: tuple[int, ...]


class MapOutputState(NamedTuple):
    """The state of a map task's output."""

    generation: int  # first one that is not void; an attempt that starts now commits it
    record: MapOutputRecord | None  # None if there is none yet, or only a damaged one
    damage: str | None = None  # fault of a record that cannot be used; `MapOutputLog.commit` voids it


class MapOutputLog:
    """The commit records of one shuffle.

    Args:
        writes_to_sink: map tasks write to the sink; records without a part, of another route, are then of no use.
    """

    def __init__(self, store: Store, *, writes_to_sink: bool = False) -> None:
        self._store = store
        self._writes_to_sink = writes_to_sink

    @property
    def has_voids(self) -> bool:
        """True if any generation may be void. Each use looks at the store."""
        return self._store.size(_VOIDS) is not None

    def current(self, map_id: int) -> MapOutputState:
        """The generation that counts and its record, by two look-ups without voids."""
        return self._current(map_id, has_voids=self.has_voids)

    def _current(self, map_id: int, *, has_voids: bool) -> MapOutputState:
        generation = 0
        # A void that comes after the look is missed. Its map output is damaged, so whoever reads it voids it once more.
        while has_voids and self._store.size(_void_key(map_id, generation)) is not None:
            generation += 1
        try:
            data = self._store.get(_record_key(map_id, generation))
            record = MapOutputRecord.from_json(data, map_id=map_id, generation=generation)
        except KeyMissingError:
            return MapOutputState(generation=generation, record=None)
        except CorruptMapOutputError as damage:
            return MapOutputState(generation=generation, record=None, damage=damage.reason)
        if self._writes_to_sink and record.part is None:
            return MapOutputState(generation=generation, record=None, damage="it names no part of the sink")
        return MapOutputState(generation=generation, record=record)

    def states(self, map_ids: Sequence[int]) -> list[MapOutputState]:
        """`current` of each, in the order given; one look-up each if nothing was voided."""
        current = partial(self._current, has_voids=self.has_voids)
        return map_parallel(current, map_ids)

    def missing(self, map_ids: Sequence[int]) -> dict[int, int]:
        """Map tasks without a valid output, in the order given, with their open generation."""
        states = self.states(map_ids)
        return {map_id: state.generation for map_id, state in zip(map_ids, states, strict=True) if state.record is None}

    def records(self, map_ids: Sequence[int]) -> list[MapOutputRecord]:
        """The record of each planned map task, in the order given; a missing one is never an empty one.

        Raises:
            MissingMapOutputError: names the map tasks that have to run.
        """
        states = self.states(map_ids)
        missing = [map_id for map_id, state in zip(map_ids, states, strict=True) if state.record is None]
        if missing:
            raise MissingMapOutputError(
                f"{len(missing)} of {len(states)} map tasks have no valid output (the first: {missing[0]})",
                map_ids=tuple(missing),
            )  # fmt: skip
        return [state.record for state in states if state.record is not None]

    def read(
        self, records: Sequence[MapOutputRecord], *, schema: pa.Schema, num_partitions: int, hash_partitions: int = 0
    ) -> tuple[list["CommittedOutput"], list[CorruptMapOutputError]]:
        """The small files of map outputs, in order, of those that are whole; and an error per damaged one."""

        def read(record: MapOutputRecord) -> CommittedOutput | CorruptMapOutputError:
            try:
                return read_committed_output(
                    self._store, record, schema=schema, num_partitions=num_partitions, hash_partitions=hash_partitions
                )
            except CorruptMapOutputError as damage:
                return damage

        results = map_parallel(read, records)
        whole = [each for each in results if isinstance(each, CommittedOutput)]
        return whole, [each for each in results if isinstance(each, CorruptMapOutputError)]

    def commit(self, record: MapOutputRecord) -> MapOutputRecord:
        """Commits a map output unless another attempt already has; returns the record that counts.

        The files that the record names must be in the store before. If generations were voided meanwhile, it commits
        the generation that is open now. Compare ``attempt`` to learn who won.
        """
        # Create-if-absent lets one attempt win; who loses looks. What a look finds decides:
        #   3.0            a whole record: it counts, whoever made it. Also ours, if the answer to its creation was lost
        #   3.0 damaged    create 3.0.void, look again: generation 1 is open, for this attempt too
        #   3.0.void       generation 1 is looked at instead, also if 3.0 was gone and has just been created
        #   nothing        create 3.0; if another attempt comes first, the next look finds its record
        # So a zombie cannot replace rows that a reduce task may have read already, and a retry cannot wait for a dead
        # attempt.
        generation = record.generation
        for _ in range(_COMMIT_TRIES):
            offered = replace(record, generation=generation).sealed()
            is_created = self._store.create(_record_key(record.map_id, generation), dump_document(offered))
            if is_created and self._store.size(_void_key(record.map_id, generation)) is None:
                return offered
            state = self.current(record.map_id)
            if state.record is not None:
                logger.info("map_output_adopted map_id=%s generation=%s attempt=%s by=%s", record.map_id,
                            state.generation, state.record.attempt, record.attempt)  # fmt: skip
                return state.record
            if state.damage is not None:
                self.void(record.map_id, state.generation, state.damage)
            generation = state.generation
        raise TransientError(
            f"{self._store.url} neither takes the commit record of map task {record.map_id} nor shows another; check "
            "that no other program writes there", map_id=record.map_id,
        )  # fmt: skip

    def void(self, map_id: int, generation: int, reason: str) -> None:
        """Voids a generation, so that it does not count; repeating it has no further effect."""
        # First, so that nobody who finds no voids.json misses a void that was there.
        self._store.create(_VOIDS, _VOIDS_DOCUMENT)
        void = dump_document({"version": 1, "map_id": map_id, "generation": generation, "reason": reason})
        if self._store.create(_void_key(map_id, generation), void):
            logger.warning("map_output_voided map_id=%s generation=%s reason=%s", map_id, generation, reason)


def _record_key(map_id: int, generation: int) -> str:
    return f"{map_id}.{generation}"


def _void_key(map_id: int, generation: int) -> str:
    return f"{map_id}.{generation}.void"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOutput:
    """One map task's output, whole as far as its small files show."""

    record: MapOutputRecord
    offsets: NDArray[np.int64]  # one more than blocks
    statistics: PartitionStatistics
    block_crc32: NDArray[np.uint32]


def read_committed_output(
    store: Store,
    record: MapOutputRecord,
    *,
    schema: pa.Schema,
    num_partitions: int,
    hash_partitions: int = 0,
) -> CommittedOutput:
    """Reads and checks the files that a commit record names, except a data file of its own."""
    if record.data is None or record.index is None:
        raise _corrupt(record, "its commit record names no shuffle files")
    expected = num_partitions, hash_partitions, schema_fingerprint(schema)
    if (record.num_partitions, record.hash_partitions, record.schema_fingerprint) != expected:
        raise _corrupt(record, "it was written for another number of partitions or hash partitions or another schema")
    # Not even the size of the data file, which takes a request: whoever fetches a block finds out whether it is there,
    # by its checksum, and then all engines make again what is lost, not this process alone.
    num_blocks = num_partitions + hash_partitions
    index = _read_index(store, record, record.index, record.data)
    index, entries = index[: index_bytes(num_blocks)], index[index_bytes(num_blocks) :]
    try:
        offsets = decode_index(index, num_blocks=num_blocks, data_size_bytes=record.data.size_bytes)
        statistics, block_crc32 = decode_statistics(entries, num_partitions=num_blocks)
    except ValueError as cause:
        raise _corrupt(record, str(cause)) from cause
    if statistics.sums(0, num_partitions) != record.ordinals:
        raise _corrupt(record, "statistics and commit record do not add up to the same")
    # Every row has a hash row. One that was missing would leave a row that equal rows of other identities cancel.
    if hash_partitions and statistics.sums(num_partitions, num_blocks) != record.ordinals:
        raise _corrupt(record, "hash rows and commit record do not add up to the same")
    return CommittedOutput(record=record, offsets=offsets, statistics=statistics, block_crc32=block_crc32)


def _read_index(store: Store, record: MapOutputRecord, index: StoredFile, data: StoredFile) -> bytes:
    if record.blocks_at:
        size_bytes, damage = index.size_bytes + data.size_bytes, partial(_corrupt, record)
        found = read_piece(store, index.key, 0, index.size_bytes, size_bytes=size_bytes, damage=damage)
    else:
        try:
            found = store.get(index.key)
        except KeyMissingError as cause:
            raise _corrupt(record, f"{index.key} is gone") from cause
    if (len(found), zlib.crc32(found)) != (index.size_bytes, index.crc32):
        raise _corrupt(record, f"{index.key} does not match the size and checksum of the commit record")
    return found


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
