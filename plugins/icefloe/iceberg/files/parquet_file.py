"""A Parquet data file, opened: Arrow batches of its own columns, in bounded memory.

A reader holds each column's dictionary page whole. The footer has only its compressed size (2 MiB of zstd may be 500
MiB), the page's header the true one.

Source: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

import heapq
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import InputStream

from icefloe.iceberg.data_file import RowGroups
from icefloe.iceberg.files.opened_file import BATCH_BYTES
from icefloe.iceberg.files.parquet_footer import CheckedFooter, CompactReader, read_footer

_HEADER_BYTES: Final = 32
"""The first two fields of a PageHeader fit in these: its kind and its size when it is decompressed."""
_FIELDS: Final = (0x15, 0x15)
"""Heads of the fields 1 and 2 in Thrift's compact protocol: each the next one, a number of 32 bits."""


def dictionary_bytes(source: InputStream, metadata: pq.FileMetaData, columns: Collection[str] | None, most: int) -> int:
    """Bytes of the dictionaries decoded together, in the row group with the most; exact only above ``most``."""
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
    header = CompactReader(source.read(_HEADER_BYTES))
    size_bytes = 0
    try:
        for field in _FIELDS:
            if header.byte() != field:
                return 0
            size_bytes = header.number()
    except IndexError:
        return 0
    return size_bytes


_LONGEST_MEASURED: Final = 4096
"""Longer values have no minimum and maximum in the footer, so their length must be looked up."""
_MEASURED_GROUPS: Final = 8
_ASSUMED_BYTES: Final = 16 << 10
_LARGE_DICTIONARY: Final = 8 << 20
"""Compressed size above which a dictionary is not decoded only to measure it; writers try to end it at 1 MiB."""

# The distinct values of a top-level text column in a row group, as far as it is encoded; None if they are too large.
Dictionary = Callable[[int, str], pa.Array | None]


def largest_row_bytes(metadata: pq.FileMetaData, dictionary: Dictionary) -> float:
    """Approximate bytes of a row, where rows are largest; at least 1."""
    # ``dictionary`` is called only if values are long and the footer does not show their length.
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


_MOST_FETCHED_BYTES: Final = 128 << 20
_MOST_READ_BYTES: Final = 16 << 20
"""Compressed bytes of an open file that may be in memory: of remote storage, where each request costs, and local."""
_LEAST_PIECE_BYTES: Final = 64 << 10
_MOST_MEASURED_BYTES: Final = 64 << 20
"""Decompressed bytes of a dictionary that is decoded to find its longest value."""
_DICTIONARY_BYTES_PER_VALUE: Final = 4.0
"""Text that takes fewer bytes per value than its plain encoding's length prefix is dictionary-encoded in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetRows:
    """The rows of one file, or of some of its row groups."""

    source: InputStream
    file: pq.ParquetFile
    groups: range
    batch_rows: int  # at most; fewer than asked for if rows are large
    footer: CheckedFooter

    @classmethod
    def open(
        cls,
        source: InputStream,
        *,
        batch_rows: int,
        pre_buffer: bool,  # for remote storage: fetch the chunks of a few row groups in few large requests
        dictionary_columns: bool,
        footer: CheckedFooter | None = None,
        row_groups: RowGroups | None = None,
    ) -> Self:
        """Read and check the footer, unless it is known."""
        if footer is None:
            metadata = read_footer(source)
            row_bytes = largest_row_bytes(metadata, partial(_dictionary, source, metadata))
            footer = CheckedFooter(metadata=metadata, row_bytes=row_bytes)
        batch_rows = min(batch_rows, max(1, int(BATCH_BYTES / footer.row_bytes)))
        encoded = _encoded_text(footer.metadata) if dictionary_columns else []
        # pyarrow decodes dictionaries only if binaries keep their default type.
        types = {"read_dictionary": encoded} if encoded else {"binary_type": pa.large_binary()}
        piece_bytes = _piece_bytes(footer.metadata, _MOST_FETCHED_BYTES if pre_buffer else _MOST_READ_BYTES)
        file = _open(
            source,
            pre_buffer=pre_buffer and not piece_bytes,
            buffer_size=piece_bytes,
            metadata=footer.metadata,
            list_type=pa.LargeListType,
            **types,
        )
        groups = range(footer.metadata.num_row_groups)
        if row_groups is not None:
            # A footer with fewer row groups has fewer rows, which is refused.
            groups = groups[row_groups.first : row_groups.stop]
        return cls(source=source, file=file, groups=groups, batch_rows=batch_rows, footer=footer)

    @property
    def schema(self) -> pa.Schema:
        """The file's columns, field ids in their metadata."""
        return self.file.schema_arrow

    @property
    def num_rows(self) -> int:
        """The rows of the row groups."""
        return sum(int(self.file.metadata.row_group(group).num_rows) for group in self.groups)

    def group_runs(self) -> Iterator[tuple[int, int, list[int]]]:
        """(first row, rows, row groups) read together: one row group, or several small ones."""
        # Some writers end a row group after a few rows. Read one by one, they would make batches of a few rows.
        first = rows = 0
        run: list[int] = []
        for group in self.groups:
            run.append(group)
            rows += self.file.metadata.row_group(group).num_rows
            if rows >= self.batch_rows:
                yield first, rows, run
                first, rows, run = first + rows, 0, []
        if rows:
            yield first, rows, run

    def batches(self, groups: Sequence[int], columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows of consecutive row groups."""
        return self.file.iter_batches(self.batch_rows, row_groups=groups, columns=columns, use_threads=False)


def _piece_bytes(metadata: pq.FileMetaData, most: int) -> int:
    """0 for whole column chunks."""
    # pyarrow would hold all column chunks of a row group. Writers make row groups of a whole file, too.
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    if max((compressed_bytes(group) for group in groups if group.total_byte_size > most), default=0) <= most:
        return 0
    return max(_LEAST_PIECE_BYTES, most // max(1, metadata.num_columns))


def compressed_bytes(group: pq.RowGroupMetaData) -> int:
    """Bytes of a row group in its file."""
    return sum(int(group.column(column).total_compressed_size) for column in range(group.num_columns))


def _open(source: InputStream, *, pre_buffer: bool, **options: object) -> pq.ParquetFile:
    # A page without a checksum passes: writers may leave it out.
    return pq.ParquetFile(
        source, pre_buffer=pre_buffer, coerce_int96_timestamp_unit="us", page_checksum_verification=True, **options
    )


def _dictionary(source: InputStream, metadata: pq.FileMetaData, group: int, column: str) -> pa.Array | None:
    """Distinct values of a top-level text column; its first value if it is not encoded."""
    size_bytes = group_dictionary_bytes(source, metadata.row_group(group), {column}, most=_MOST_MEASURED_BYTES)
    if size_bytes > _MOST_MEASURED_BYTES:
        return None
    file = _open(source, pre_buffer=False, metadata=metadata, read_dictionary=[column])
    batch = next(file.iter_batches(1, row_groups=[group], columns=[column], use_threads=False))
    values = batch.column(0)
    return values.dictionary if pa.types.is_dictionary(values.type) else values


def _encoded_text(metadata: pq.FileMetaData) -> list[str]:
    """The top-level text columns that are encoded throughout, judged by their size."""
    columns = [metadata.schema.column(column) for column in range(metadata.num_columns)]
    return [
        column.path
        for number, column in enumerate(columns)
        if column.physical_type == "BYTE_ARRAY"
        and column.path == column.name
        and column.max_repetition_level == 0
        and _is_encoded(metadata, number)
    ]


def _is_encoded(metadata: pq.FileMetaData, column: int) -> bool:
    chunks = [metadata.row_group(group).column(column) for group in range(metadata.num_row_groups)]
    size = sum(chunk.total_uncompressed_size for chunk in chunks)
    values = sum(chunk.num_values for chunk in chunks)
    has_pages = all(chunk.has_dictionary_page for chunk in chunks)
    return bool(has_pages and size < _DICTIONARY_BYTES_PER_VALUE * values)
