"""Sizes of rows and dictionaries of a Parquet file, before they are decoded.

A reader holds each column's dictionary page whole. The footer has only its compressed size (2 MiB of zstd may be 500
MiB), the page's header the true one.

Source: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

import heapq
from collections.abc import Callable, Collection
from typing import Final, NoReturn, Protocol

import pyarrow as pa
import pyarrow.compute as pc
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
        """Raises for dictionaries that are larger."""


def dictionary_bytes(
    source: InputStream, metadata: pq.FileMetaData, columns: Collection[str] | None, *, most: int
) -> int:
    """Bytes of the dictionaries decoded together, in the row group with the most.

    Args:
        most: sizes up to this one need not be exact.
    """
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    large = (group for group in groups if group.total_byte_size > most)
    return max((group_dictionary_bytes(source, group, columns, most=most) for group in large), default=0)


def group_dictionary_bytes(
    source: InputStream, group: pq.RowGroupMetaData, columns: Collection[str] | None, *, most: int
) -> int:
    """Bytes of the dictionaries decoded together with one row group."""
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
    """Decompressed; 0 for a bad header, which decoding reports."""
    source.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
    header = source.read(_HEADER_BYTES)
    place, found = 0, 0
    for field in _FIELDS:
        if header[place : place + 1] != bytes([field]):
            return 0
        found, place = _number(header, place + 1)
    return found


def _number(data: bytes, place: int) -> tuple[int, int]:
    """The number, and the place after it."""
    raw = shift = 0
    for byte in data[place:]:
        place += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    return (raw >> 1) ^ -(raw & 1), place


_LONGEST_MEASURED: Final = 4096
"""Longer values have no minimum and maximum in the footer, so their length must be looked up."""
_MEASURED_GROUPS: Final = 8
_ASSUMED_BYTES: Final = 16 << 10
_LARGE_DICTIONARY: Final = 8 << 20
"""Compressed size above which a dictionary is not decoded only to measure it; writers try to end it at 1 MiB."""

Dictionary = Callable[[int, str], pa.Array | None]


def largest_row_bytes(metadata: pq.FileMetaData, dictionary: Dictionary) -> float:
    """Approximate bytes of a row, where rows are largest; at least 1.

    Args:
        dictionary: the distinct values of a top-level text column in a row group as far as it is encoded, None if too
            large; called only if values are long and the footer does not show their length.
    """
    groups = [(metadata.row_group(number), number) for number in range(metadata.num_row_groups)]
    largest = heapq.nlargest(
        _MEASURED_GROUPS, groups, key=lambda each: each[0].total_byte_size / max(each[0].num_rows, 1)
    )
    return max((_row_bytes(group, number, dictionary) for group, number in largest), default=1.0)


def _row_bytes(group: pq.RowGroupMetaData, number: int, dictionary: Dictionary) -> float:
    rows = max(group.num_rows, 1)
    chunks = [group.column(column) for column in range(group.num_columns)]
    return max(1.0, sum(max(c.total_uncompressed_size / rows, _value_bytes(c, number, dictionary)) for c in chunks))


def _value_bytes(chunk: pq.ColumnChunkMetaData, group: int, dictionary: Dictionary) -> int:
    """0 unless a dictionary may hold it, so that the chunk's size says little."""
    # A dictionary of one text of 1 MB makes a chunk of 1 MB and, decoded, rows of 1 MB each.
    size_bytes = chunk.total_uncompressed_size
    if chunk.physical_type != "BYTE_ARRAY" or size_bytes <= _LONGEST_MEASURED or not chunk.has_dictionary_page:
        return 0
    statistics = chunk.statistics
    if statistics is not None and statistics.has_min_max:
        return max(len(statistics.min_raw), len(statistics.max_raw))
    dictionary_bytes = chunk.data_page_offset - (chunk.dictionary_page_offset or chunk.data_page_offset)
    is_measured = "." not in chunk.path_in_schema and dictionary_bytes <= _LARGE_DICTIONARY
    values = dictionary(group, chunk.path_in_schema) if is_measured else None
    if values is None:
        return int(min(size_bytes, _ASSUMED_BYTES))
    return int(pc.max(pc.binary_length(values.cast(pa.large_binary()))).as_py() or 0)
