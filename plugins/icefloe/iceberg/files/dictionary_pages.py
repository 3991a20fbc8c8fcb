"""The dictionaries of a Parquet file, measured before they are decoded.

A reader holds the dictionary page of each column whole. The footer only tells its compressed size: 2 MiB of zstd may be
500 MiB. The header of the page tells the true size.

Source: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

import heapq
from collections.abc import Collection
from typing import Final, NoReturn, Protocol

import pyarrow.parquet as pq
from pyiceberg.io import InputStream

_HEADER_BYTES: Final = 32
"""The first two fields of a PageHeader fit in these: its kind and its size when it is decompressed."""
_FIELDS: Final = (0x15, 0x15)
"""Heads of the fields 1 and 2 in Thrift's compact protocol: each the next one, a number of 32 bits."""


class DictionaryBound(Protocol):
    """The memory that a task has for the dictionaries of a row group."""

    @property
    def most_dictionary_bytes(self) -> int:
        """The most bytes."""

    def refuse_dictionaries(self, size_bytes: int, *, place: str) -> NoReturn:
        """Raises for dictionaries that are larger.

        Args:
            size_bytes: of a row group.
            place: the file, as the subject of a sentence.
        """


def dictionary_bytes(
    source: InputStream, metadata: pq.FileMetaData, columns: Collection[str] | None, *, most: int
) -> int:
    """Bytes of the dictionaries that are decoded together: those of a row group, of the row group with the most.

    Args:
        source: the file.
        metadata: its footer, checked.
        columns: names of the top-level columns that are read; None: all.
        most: sizes up to this one need not be exact. No header is read to tell one from another.
    """
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    large = (group for group in groups if group.total_byte_size > most)
    return max((group_dictionary_bytes(source, group, columns, most=most) for group in large), default=0)


def group_dictionary_bytes(
    source: InputStream, group: pq.RowGroupMetaData, columns: Collection[str] | None, *, most: int
) -> int:
    """Bytes of the dictionaries that are decoded together with one row group."""
    chunks = [group.column(number) for number in range(group.num_columns)]
    # No dictionary is larger than its chunk. From the largest chunk on, headers are read until the rest cannot matter.
    largest = [
        (-chunk.total_uncompressed_size, number, chunk)
        for number, chunk in enumerate(chunks)
        if chunk.has_dictionary_page and (columns is None or chunk.path_in_schema.partition(".")[0] in columns)
    ]
    heapq.heapify(largest)
    total = -sum(size for size, _, _ in largest)
    while largest and total > most:
        size, _, chunk = heapq.heappop(largest)
        total += size + min(-size, _page_bytes(source, chunk))
    return total


def _page_bytes(source: InputStream, chunk: pq.ColumnChunkMetaData) -> int:
    """Bytes of the dictionary page of a chunk, decompressed; 0 if its header is none, which decoding will say."""
    source.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
    header = source.read(_HEADER_BYTES)
    place, found = 0, 0
    for field in _FIELDS:
        if header[place : place + 1] != bytes([field]):
            return 0
        found, place = _number(header, place + 1)
    return found


def _number(data: bytes, place: int) -> tuple[int, int]:
    """The number at a place, and the place after it."""
    raw = shift = 0
    for byte in data[place:]:
        place += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    return (raw >> 1) ^ -(raw & 1), place
