"""Size of the decoded rows of a Parquet file, as far as its footer and its dictionaries show it."""

import heapq
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_LONGEST_MEASURED: Final = 4096
"""Longer values have no minimum and maximum in the footer, so their length must be looked up."""
_MEASURED_GROUPS: Final = 8
_ASSUMED_BYTES: Final = 16 << 10
_LARGE_DICTIONARY: Final = 8 << 20
"""Compressed size above which a dictionary is not decoded only to measure it; writers try to end it at 1 MiB."""

Dictionary = Callable[[int, str], pa.Array | None]


def largest_row_bytes(metadata: pq.FileMetaData, dictionary: Dictionary) -> float:
    """Approximate bytes of a row, in the row groups with the largest rows; at least 1.

    Args:
        metadata: pyarrow's, of the file.
        dictionary: gives the distinct values of a top-level text column in a row group as far as it is
            dictionary-encoded, None if they are too large; called only if values are long and the footer does not
            show their length.
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
    """Bytes of a value if a dictionary may hold it, so that the size of the chunk says little; otherwise 0."""
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
