"""Committed map outputs that are made up: a store that answers for the small files of thousands of map tasks."""

import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.documents import dump_document
from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.committed_output import MapOutputRecord, StoredFile, schema_fingerprint
from icefloe.shuffle.index_file import PartitionStatistics, encode_index, encode_statistics
from icefloe.storage.store import KeyMissingError, Store, StoredObject

__all__ = ["SyntheticOutputs"]

_TEMPLATES: Final = 8
_BLOCK_BYTES: Final = (500, 4_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Template:
    """The small files of one map output, which many map tasks share."""

    record: MapOutputRecord
    index: bytes


class SyntheticOutputs(Store):
    """Map outputs without data files; every other key is kept by another store.

    Args:
        kept: the store of all other keys.
        schema: the table's columns.
        num_partitions: reduce partitions.
        empty: share of blocks that are empty.
    """

    def __init__(self, kept: Store, *, schema: pa.Schema, num_partitions: int, empty: float) -> None:
        self._kept = kept
        generator = np.random.default_rng(7)
        self._templates = [_template(generator, schema, num_partitions, empty) for _ in range(_TEMPLATES)]
        self.own_seconds = 0.0
        self.requests = 0

    @property
    def url(self) -> str:
        return self._kept.url

    def get(self, key: str) -> bytes:
        self.requests += 1
        name = key.split(".")
        if not name[0].isdigit():
            return self._kept.get(key)
        started = time.thread_time()
        template = self._templates[int(name[0]) % _TEMPLATES]
        try:
            return template.index if len(name) > 2 else self._record(template, int(name[0]))
        except KeyError:
            raise KeyMissingError.of(self.url, key) from None
        finally:
            self.own_seconds += time.thread_time() - started

    def size(self, key: str) -> int | None:
        self.requests += 1
        name = key.split(".")
        if not name[0].isdigit():
            return self._kept.size(key)
        data = self._templates[int(name[0]) % _TEMPLATES].record.data
        return data.size_bytes if name[-1] == "data" and data is not None else None

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.requests += 1
        return self._kept.get_ranges(key, ranges)

    def put(self, key: str, data: bytes | Path) -> None:
        self.requests += 1
        self._kept.put(key, data)

    def create(self, key: str, data: bytes | Path) -> bool:
        self.requests += 1
        return self._kept.create(key, data)

    def delete(self, keys: Iterable[str]) -> None:
        self._kept.delete(keys)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        return self._kept.list(prefix)

    @staticmethod
    def _record(template: _Template, map_id: int) -> bytes:
        def own(file: StoredFile | None) -> StoredFile | None:
            return None if file is None else replace(file, key=f"{map_id}{file.key}")

        record = template.record
        files = {name: own(getattr(record, name)) for name in ("data", "index")}
        return dump_document(replace(record, map_id=map_id, **files).sealed())  # type: ignore[arg-type]


def _template(generator: np.random.Generator, schema: pa.Schema, num_partitions: int, empty: float) -> _Template:
    is_full = generator.random(num_partitions) >= empty
    lengths = np.where(is_full, generator.integers(*_BLOCK_BYTES, num_partitions), 0)
    reduce_ids = np.repeat(np.flatnonzero(is_full), 3).astype(np.int32)
    hashes = RowHashes(*(generator.integers(0, 2**64, len(reduce_ids), np.uint64) for _ in range(2)))
    statistics = PartitionStatistics.of_rows(
        reduce_ids=reduce_ids,
        change_ordinals=np.zeros(len(reduce_ids), np.int32),
        weights=np.where(np.arange(len(reduce_ids)) % 2, 1, -1).astype(np.int64),
        row_hashes=hashes,
    )
    checksums = np.where(is_full, generator.integers(0, 2**32, num_partitions, np.uint32), 0).astype(np.uint32)
    index = encode_index(np.concatenate([[0], np.cumsum(lengths)])) + encode_statistics(statistics, checksums)
    ordinals = statistics.sums(0, num_partitions)
    record = MapOutputRecord(
        map_id=0,
        generation=0,
        attempt="a" * 32,
        data=StoredFile(key=f".0.{'a' * 32}.data", size_bytes=int(lengths.sum()), crc32=0),
        index=StoredFile(key=f".0.{'a' * 32}.index", size_bytes=len(index), crc32=zlib.crc32(index)),
        num_partitions=num_partitions,
        schema_fingerprint=schema_fingerprint(BlockRows.schema(schema)),
        largest_block_bytes=_BLOCK_BYTES[1] * 4,
        rows=sum(each.rows for each in ordinals),
        ordinals=ordinals,
    )
    return _Template(record=record, index=index)
