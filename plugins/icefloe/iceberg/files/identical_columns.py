"""Columns with equal bytes in two Parquet files: equal values at equal positions, undecoded.

The footers are compared first. Bytes are read only of columns with one layout.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from icefloe.iceberg.catalog.file_io import data_file_input, reading_data_file
from icefloe.iceberg.data_file import Constant, DataFile
from icefloe.iceberg.files.opened_file import ProjectedFile
from icefloe.iceberg.files.parquet_file import ParquetRows
from icefloe.iceberg.schemas.conversions import FilledField
from icefloe.iceberg.schemas.file_columns import FileColumn, leaves

_UNSIZED_CHUNKS: Final = re.compile(r"parquet-mr(?! version (1\.([3-9]|\d\d)|[2-9]))", re.IGNORECASE)
"""Writers that may have left a header out of a chunk's size, so that its bytes go on after its end (PARQUET-816)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLayout:
    """A column of one file."""

    decoding: tuple[object, ...]  # all that decides how its bytes become the table's values
    ranges: Sequence[tuple[int, int]] = ()  # (first byte, number of bytes) of each chunk; none if the file lacks it

    @property
    def size_bytes(self) -> int:
        """Compressed bytes of all chunks."""
        return sum(size for _, size in self.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """The columns to read of one file."""

    decoding: tuple[object, ...]  # the writer, and the rows of each row group
    columns: Mapping[str, ColumnLayout]

    @classmethod
    def of(cls, opened: ProjectedFile, schema: Schema, constants: Mapping[str, Constant]) -> Self | None:
        """None if a file is not Parquet, or something is in doubt."""
        if not isinstance(opened.rows, ParquetRows):
            return None
        metadata = opened.rows.file.metadata
        groups = [metadata.row_group(number) for number in opened.rows.groups]
        chunks = [[group.column(number) for number in range(metadata.num_columns)] for group in groups]
        numbers = _leaf_numbers(opened.file_columns)
        if _UNSIZED_CHUNKS.match(metadata.created_by or "") or sum(map(len, numbers)) != metadata.num_columns:
            return None
        # The format lets the chunks of a file lie in another file. A damaged footer has any number.
        if any(chunk.file_path or min(_range(chunk)) < 0 for group in chunks for chunk in group):
            return None
        columns: dict[str, ColumnLayout] = {}
        for target, field in zip(schema.fields, opened.projection.fields, strict=True):
            if isinstance(field, FilledField):
                columns[target.name] = ColumnLayout(decoding=(field,))
                continue
            leaf_numbers = numbers[field.position]
            # Missing fields inside of the column have these values. The rest of the plan follows from the types.
            filled = [(inside, constants.get(str(inside))) for inside in Schema(target).field_ids]
            columns[target.name] = _column_layout(
                filled,
                opened.file_columns[field.position],
                [metadata.schema.column(number) for number in leaf_numbers],
                [group[number] for group in chunks for number in leaf_numbers],
            )
        written = metadata.created_by, metadata.format_version, tuple(group.num_rows for group in groups)
        return cls(decoding=written, columns=columns)

    def size_bytes(self, names: Iterable[str]) -> int:
        """Compressed bytes of some columns."""
        return sum(self.columns[name].size_bytes for name in names)


def _leaf_numbers(columns: Sequence[FileColumn]) -> list[range]:
    found: list[range] = []
    start = 0
    for column in columns:
        found.append(range(start, start + sum(1 for _ in leaves([column]))))
        start = found[-1].stop
    return found


def _column_layout(
    filled: object,
    column: FileColumn,
    leaf_schemas: Sequence[pq.ColumnSchema],
    chunks: Sequence[pq.ColumnChunkMetaData],
) -> ColumnLayout:
    decoding = (
        filled,
        _ids(column),
        column.type,
        tuple(_leaf_decoding(leaf) for leaf in leaf_schemas),
        tuple(_chunk_decoding(chunk) for chunk in chunks),
    )
    return ColumnLayout(decoding=decoding, ranges=[_range(chunk) for chunk in chunks])


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
    files: tuple[DataFile, DataFile], layouts: Sequence[FileLayout | None], *, io: FileIO, table: str
) -> frozenset[str]:
    """See `FileReader.identical_columns`."""
    first, second = layouts
    if first is None or second is None or first.decoding != second.decoding:
        return frozenset()
    least_bytes = _LEAST_SHARE * first.size_bytes(first.columns)
    likely = [name for name, column in first.columns.items() if column.decoding == second.columns[name].decoding]
    if first.size_bytes(likely) < least_bytes:
        return frozenset()
    unequal: set[str] = set()
    one, other = files
    with _reading(one, io, table) as of_one, _reading(other, io, table) as of_other:
        for run in _runs(_spans(first, second, likely)):
            unequal.update(_unequal([span for span in run if span.name not in unequal], of_one, of_other))
    identical = [name for name in likely if name not in unequal]
    return frozenset(identical if first.size_bytes(identical) >= least_bytes else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    name: str
    starts: tuple[int, int]
    size: int

    @property
    def stops(self) -> tuple[int, int]:
        return self.starts[0] + self.size, self.starts[1] + self.size


def _spans(first: FileLayout, second: FileLayout, names: Iterable[str]) -> list[_Span]:
    """The bytes of the columns, in pieces."""
    found = [
        _Span(name=name, starts=(start + begin, other + begin), size=min(_PIECE_BYTES, size - begin))
        for name in names
        for (start, size), (other, _) in zip(first.columns[name].ranges, second.columns[name].ranges, strict=True)
        for begin in range(0, size, _PIECE_BYTES)
    ]
    return sorted(found, key=lambda span: span.starts)


def _runs(spans: Iterable[_Span]) -> Iterator[list[_Span]]:
    """Neighbours in both files, to be read in one request."""
    run: list[_Span] = []
    for span in spans:
        if run and (run[-1].stops != span.starts or span.stops[0] - run[0].starts[0] > _PIECE_BYTES):
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
    first, second = run[0].starts
    size = run[-1].stops[0] - first
    here, there = one(first, size), other(second, size)
    if len(here) == size and here == there:
        return
    for span in run:
        start = span.starts[0] - first
        # A piece that ends too early is of a damaged file, which the reader refuses.
        if len(here) != size or here[start : start + span.size] != there[start : start + span.size]:
            yield span.name
