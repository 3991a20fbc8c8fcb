"""Columns with equal bytes in two Parquet files: equal values at equal positions, undecoded.

The footers are compared first. Bytes are read only of columns with one layout.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from icefloe.iceberg.catalog.file_io import data_file_input, reading_data_file
from icefloe.iceberg.data_file import Constant, DataFile
from icefloe.iceberg.files.opened_file import ProjectedFile
from icefloe.iceberg.files.parquet_file import ParquetRows
from icefloe.iceberg.schemas.arrow_columns import FileColumn, leaves
from icefloe.iceberg.schemas.conversions import FilledField

_UNSIZED_CHUNKS: Final = re.compile(r"parquet-mr(?! version (1\.([3-9]|\d\d)|[2-9]))", re.IGNORECASE)
"""Writers that may have left a header out of a chunk's size, so that its bytes go on after its end (PARQUET-816)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLayout:
    """A column of one file."""

    decoding: tuple[object, ...]  # all that decides how its bytes become the table's values
    ranges: Sequence[tuple[int, int]] = ()  # (first byte, number of bytes) of each chunk; none if the file lacks it


def column_layouts(
    opened: ProjectedFile, schema: Schema, constants: Mapping[str, Constant]
) -> Mapping[str, ColumnLayout]:
    """The columns to read of one file; empty if it is not Parquet, or something is in doubt."""
    if not isinstance(opened.rows, ParquetRows):
        return {}
    metadata = opened.rows.file.metadata
    groups = [metadata.row_group(number) for number in opened.rows.groups]
    chunks = [[group.column(number) for number in range(metadata.num_columns)] for group in groups]
    numbers = _leaf_numbers(opened.file_columns)
    if _UNSIZED_CHUNKS.match(metadata.created_by or "") or sum(map(len, numbers)) != metadata.num_columns:
        return {}
    # The format lets the chunks of a file lie in another file. A damaged footer has any number.
    if any(chunk.file_path or min(_range(chunk)) < 0 for group in chunks for chunk in group):
        return {}
    written = metadata.created_by, metadata.format_version, tuple(group.num_rows for group in groups)
    columns: dict[str, ColumnLayout] = {}
    for target, field in zip(schema.fields, opened.projection.fields, strict=True):
        if isinstance(field, FilledField):
            columns[target.name] = ColumnLayout(decoding=(written, field))
            continue
        column, leaf_numbers = opened.file_columns[field.position], numbers[field.position]
        of_column = [group[number] for group in chunks for number in leaf_numbers]
        decoding = (
            written,
            # Missing fields inside of the column have these values. The rest of the plan follows from the types.
            [(inside, constants.get(str(inside))) for inside in Schema(target).field_ids],
            _ids(column),
            column.type,
            [_leaf_decoding(metadata.schema.column(number)) for number in leaf_numbers],
            [_chunk_decoding(chunk) for chunk in of_column],
        )
        columns[target.name] = ColumnLayout(decoding=decoding, ranges=[_range(chunk) for chunk in of_column])
    return columns


def _leaf_numbers(columns: Sequence[FileColumn]) -> list[range]:
    found: list[range] = []
    start = 0
    for column in columns:
        found.append(range(start, start + sum(1 for _ in leaves([column]))))
        start = found[-1].stop
    return found


def _ids(column: FileColumn) -> tuple[object, ...]:
    return column.field_id, column.is_nullable, tuple(_ids(child) for child in column.children)


def _leaf_decoding(leaf: pq.ColumnSchema) -> tuple[object, ...]:
    _, *inside = leaf.path.split(".")
    kind = leaf.physical_type, str(leaf.logical_type), leaf.converted_type, leaf.length, leaf.precision, leaf.scale
    return inside, kind, leaf.max_definition_level, leaf.max_repetition_level


def _chunk_decoding(chunk: pq.ColumnChunkMetaData) -> tuple[object, ...]:
    sizes = chunk.num_values, chunk.total_compressed_size, chunk.total_uncompressed_size
    dictionary_bytes = chunk.data_page_offset - _range(chunk)[0]
    return chunk.compression, sizes, chunk.encodings, chunk.has_dictionary_page, dictionary_bytes


def _range(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """First byte and number of bytes, as Arrow finds them: a dictionary page may come first."""
    first = int(chunk.data_page_offset)
    dictionary = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
    return int(dictionary) if dictionary and dictionary < first else first, int(chunk.total_compressed_size)


_LEAST_SHARE: Final = 0.2
"""If identical columns take a smaller share of a file's bytes, comparing the bytes may cost more than it saves."""
_PIECE_BYTES: Final = 16 << 20


def identical_columns(
    files: tuple[DataFile, DataFile], layouts: Sequence[Mapping[str, ColumnLayout]], *, io: FileIO, table: str
) -> frozenset[str]:
    """See `FileReader.identical_columns`."""
    first, second = layouts
    likely = [name for name in first.keys() & second.keys() if first[name].decoding == second[name].decoding]
    least_bytes = _LEAST_SHARE * _size_bytes(first, first)
    if not likely or _size_bytes(first, likely) < least_bytes:
        return frozenset()
    unequal: set[str] = set()
    one, other = files
    with _reading(one, io, table) as of_one, _reading(other, io, table) as of_other:
        for run in _runs(first, second, likely):
            unequal.update(_unequal([span for span in run if span.name not in unequal], of_one, of_other))
    identical = [name for name in likely if name not in unequal]
    return frozenset(identical if _size_bytes(first, identical) >= least_bytes else ())


def _size_bytes(layout: Mapping[str, ColumnLayout], names: Iterable[str]) -> int:
    """Compressed bytes of some columns."""
    return sum(size for name in names for _, size in layout[name].ranges)


class _Span(NamedTuple):
    """A piece of a column's bytes in both files."""

    start: int
    other_start: int
    size: int
    name: str


def _runs(
    first: Mapping[str, ColumnLayout], second: Mapping[str, ColumnLayout], names: Iterable[str]
) -> Iterator[list[_Span]]:
    """The bytes of the columns: neighbours in both files, to be read in one request."""
    spans = sorted(
        _Span(start + begin, other + begin, min(_PIECE_BYTES, size - begin), name)
        for name in names
        for (start, size), (other, _) in zip(first[name].ranges, second[name].ranges, strict=True)
        for begin in range(0, size, _PIECE_BYTES)
    )
    run: list[_Span] = []
    for span in spans:
        last = run[-1] if run else span
        are_neighbours = (last.start + last.size, last.other_start + last.size) == (span.start, span.other_start)
        if run and not (are_neighbours and span.start + span.size - run[0].start <= _PIECE_BYTES):
            yield run
            run = []
        run.append(span)
    if run:
        yield run


_Read = Callable[[int, int], bytes]


@contextmanager
def _reading(file: DataFile, io: FileIO, table: str) -> Iterator[_Read]:
    opener = data_file_input(io, file.path, table=table)
    # Not around both files: an error names the file that it is about.
    with reading_data_file(file.path, table=table):
        source = opener.open()

    def read(start: int, size: int) -> bytes:
        with reading_data_file(file.path, table=table):
            source.seek(start)
            return source.read(size)

    with source:
        yield read


def _unequal(run: Sequence[_Span], one: _Read, other: _Read) -> Iterator[str]:
    """The columns whose bytes differ."""
    if not run:
        return
    size = run[-1].start + run[-1].size - run[0].start
    # Bytes are compared at once, a memoryview one byte after the other.
    here, there = one(run[0].start, size), other(run[0].other_start, size)
    if len(here) == size and here == there:
        return
    for span in run:
        piece = slice(span.start - run[0].start, span.start - run[0].start + span.size)
        # A piece that ends too early is of a damaged file, which the reader refuses.
        if len(here[piece]) < span.size or here[piece] != there[piece]:
            yield span.name
