"""The columns of a Parquet file as its footer describes them: the places of their bytes, and how the bytes are decoded.

Bytes with equal descriptions decode to equal values. A column chunk is decoded from its own bytes, its metadata in the
footer and the file's schema, and from nothing else.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import pyarrow.parquet as pq

from icefloe.iceberg.files.parquet_file import ParquetRows
from icefloe.iceberg.files.projected_file import ProjectedFile
from icefloe.iceberg.projection.file_columns import FileColumn, leaves
from icefloe.iceberg.projection.nested import FilledField, TakenField

_UNSIZED_CHUNKS: Final = re.compile(r"parquet-mr(?! version (1\.([3-9]|\d\d)|[2-9]))", re.IGNORECASE)
"""Writers that may have left a header out of a chunk's size, so that its bytes go on after its end (PARQUET-816)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLayout:
    """A column of one file.

    Attributes:
        decoding: all that decides how its bytes become the table's values.
        ranges: (first byte, number of bytes) of each chunk, row group by row group; none if the file lacks the column.
    """

    decoding: tuple[object, ...]
    ranges: Sequence[tuple[int, int]] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of its chunks."""
        return sum(size for _, size in self.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """The columns to read of one file.

    Attributes:
        decoding: what decides how any of its columns is decoded: the writer, and the rows of each row group.
        columns: by name in the table, dotless.
    """

    decoding: tuple[object, ...]
    columns: Mapping[str, ColumnLayout]

    @classmethod
    def of(cls, opened: ProjectedFile) -> Self | None:
        """The layout of an open file; None if it is no Parquet file, or if something about it is in doubt."""
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
        for name, field in zip(opened.projection.schema.names, opened.projection.fields, strict=True):
            if isinstance(field, FilledField):
                columns[name] = ColumnLayout(decoding=(field,))
                continue
            leaf_numbers = numbers[field.position]
            columns[name] = _column_layout(
                field,
                opened.file_columns[field.position],
                [metadata.schema.column(number) for number in leaf_numbers],
                [group[number] for group in chunks for number in leaf_numbers],
            )
        written = metadata.created_by, metadata.format_version, tuple(group.num_rows for group in groups)
        return cls(decoding=written, columns=columns)

    def size_bytes(self, names: Iterable[str]) -> int:
        """Bytes of the chunks of some columns."""
        return sum(self.columns[name].size_bytes for name in names)


def _leaf_numbers(columns: Sequence[FileColumn]) -> list[range]:
    """The numbers of the leaves of each top-level column; a footer lists the leaves of all columns one by one."""
    found: list[range] = []
    start = 0
    for column in columns:
        found.append(range(start, start + sum(1 for _ in leaves([column]))))
        start = found[-1].stop
    return found


def _column_layout(
    field: TakenField,
    column: FileColumn,
    leaf_schemas: Sequence[pq.ColumnSchema],
    chunks: Sequence[pq.ColumnChunkMetaData],
) -> ColumnLayout:
    decoding = (
        # The plan of the projection holds constants and defaults of fields that are missing inside the column.
        replace(field, position=0),
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
    """First byte and number of bytes of a chunk, as Arrow finds them: a dictionary page may come first."""
    first = int(chunk.data_page_offset)
    dictionary = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
    return int(dictionary) if dictionary and dictionary < first else first, int(chunk.total_compressed_size)
