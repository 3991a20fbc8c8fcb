"""Commit records: the files of one attempt that are a map task's output (docs/developers/formats.md)."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import ConfigDict

from icefloe.documents import STRICT, dump_document, fields_crc32, load_document
from icefloe.errors import TransientError
from icefloe.shuffle.ordinal_sums import OrdinalSums

__all__ = ["CorruptMapOutputError", "MapOutputRecord"]


class CorruptMapOutputError(TransientError):
    """A map output is damaged or gone: its generation must be voided and its map task run again."""

    is_met_everywhere = True
    map_id: int
    generation: int
    reason: str

    @property
    def outputs(self) -> tuple[tuple[int, int], ...]:
        """The map outputs to void: each a map id and a generation."""
        return ((self.map_id, self.generation),)

    @classmethod
    def of(cls, map_id: int, generation: int, reason: str) -> "CorruptMapOutputError":
        """The error of one generation of one map output."""
        return cls(
            f"the output of map task {map_id}, generation {generation}, is damaged: {reason}; the task must run again",
            map_id=map_id, generation=generation, reason=reason,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a map output, as its attempt wrote it.

    Attributes:
        key: key in the store or, for a data file, at a node (`icefloe.node.node_key`).
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    key: str
    size_bytes: int
    crc32: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOutputRecord:
    """The output and the figures of one map task. This document makes its files count.

    Attributes:
        attempt: unique name of the attempt, part of its files' names.
        data: blocks; this and the next are None for a task of the insert-only route, which shuffles nothing.
        index: offsets of the blocks, and their rows, signed counts and hash sums. If it has the key of the data, the
            file is the index and then the blocks.
        num_partitions: reduce partitions.
        divided: reduce partitions that have a block for each part, ascending (`divided_partitions`). The index
            then counts blocks where it otherwise counts reduce partitions.
        hash_partitions: partitions of hash rows, which follow the reduce partitions in all files (`hash_rows`).
        schema_fingerprint: fingerprint of the schema of the rows in the blocks.
        largest_block_bytes: size of the largest block, uncompressed; a reader allocates no more for one block.
        rows: rows in the data file, without hash rows.
        ordinals: sums per change ordinal, ascending.
        removed_rows_read: rows read with a negative weight, counted in each step that removes them.
        added_rows_read: rows read with a positive weight, counted in each step that adds them.
        carried_over_rows: rows of the two counts above that cancelled out.
        bytes_read: bytes of the files read.
        bytes_decoded: bytes decoded from these files, in Arrow's memory.
        part: an insert-only task's sink commit message.
        crc32: CRC-32 of this document without this key, which distinguishes damage from a record of another release.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    map_id: int
    generation: int
    attempt: str
    data: StoredFile | None = None
    index: StoredFile | None = None
    num_partitions: int = 0
    divided: tuple[int, ...] = ()
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
            TerminalError: whole, but of another release.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class VoidRecord:
    """Says that a generation of a map output does not count, and why."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    map_id: int
    generation: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VoidsRecord:
    """Says that there may be void records."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1


def schema_fingerprint(schema: pa.Schema) -> str:
    """32 hexadecimal digits that depend on names, types, nullability and order of the fields, not on metadata.

    >>> first, second = pa.schema([("id", pa.int64())]), pa.schema([("id", pa.int32())])
    >>> schema_fingerprint(first) == schema_fingerprint(second)
    False
    """
    text = schema.to_string(truncate_metadata=False, show_field_metadata=False, show_schema_metadata=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
