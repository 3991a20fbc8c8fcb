"""Columns whose bytes are equal in two Parquet files, so that equal positions hold equal values, undecoded.

The footers are compared first. Bytes are read only of columns that have one layout in both files.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from pyiceberg.io import FileIO

from icefloe.iceberg.catalog.file_io import data_file_input, reading_data_file
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.files.column_layout import FileLayout
from icefloe.iceberg.files.kept_footers import KeptFooters
from icefloe.iceberg.files.projected_file import open_projected
from icefloe.iceberg.schemas.table_schema import TableSchema

__all__ = ["identical_columns"]

_LEAST_SHARE: Final = 0.2
"""If identical columns take a smaller share of a file's bytes, comparing the bytes may cost more than it saves."""
_PIECE_BYTES: Final = 16 << 20


def identical_columns(
    one: DataFile,
    other: DataFile,
    *,
    schema: TableSchema,
    io: FileIO,
    table: str,
    footers: KeptFooters | None = None,
) -> frozenset[str]:
    """The columns that hold equal values at equal positions of two files, by their bytes.

    Args:
        one: a data file of the table.
        other: another data file of the table.
        schema: the columns to read.
        io: opens the files.
        table: its name, for errors.
        footers: as for ``read_data_file``.

    Returns:
        Names of top-level columns of the schema. No names if the files are no Parquet files of one layout, or if the
        columns take a small share of the bytes. A column that both files lack is identical if it has one value.

    Raises:
        FileGoneError: a file does not exist.
        TerminalError: a file is damaged or may not be read; the errors of ``read_data_file`` are the same.
        TransientError: the storage did not answer.
    """
    if {one.file_format, other.file_format} != {"PARQUET"}:
        return frozenset()
    first, second = (_layout(file, schema=schema, io=io, table=table, footers=footers) for file in (one, other))
    if first is None or second is None or first.decoding != second.decoding:
        return frozenset()
    least_bytes = _LEAST_SHARE * first.size_bytes(first.columns)
    likely = [name for name, column in first.columns.items() if column.decoding == second.columns[name].decoding]
    if first.size_bytes(likely) < least_bytes:
        return frozenset()
    unequal: set[str] = set()
    with _Pieces(one, io, table) as of_one, _Pieces(other, io, table) as of_other:
        for run in _runs(_spans(first, second, likely)):
            _compare(run, of_one, of_other, unequal)
    identical = [name for name in likely if name not in unequal]
    return frozenset(identical if first.size_bytes(identical) >= least_bytes else ())


def _layout(
    file: DataFile, *, schema: TableSchema, io: FileIO, table: str, footers: KeptFooters | None
) -> FileLayout | None:
    with open_projected(file, schema=schema, io=io, table=table, batch_rows=1, footers=footers) as opened:
        return FileLayout.of(opened)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """A chunk of a column that both files have, at its place in each."""

    name: str
    starts: tuple[int, int]
    size: int

    @property
    def stops(self) -> tuple[int, int]:
        return self.starts[0] + self.size, self.starts[1] + self.size


def _spans(first: FileLayout, second: FileLayout, names: Iterable[str]) -> list[_Span]:
    """The chunks to compare, in the order of the first file."""
    found = [
        _Span(name=name, starts=(start, other), size=size)
        for name in names
        for (start, size), (other, _) in zip(first.columns[name].ranges, second.columns[name].ranges, strict=True)
    ]
    return sorted(found, key=lambda span: span.starts)


def _runs(spans: Iterable[_Span]) -> Iterator[list[_Span]]:
    """Chunks that follow one another in both files, to be read in few requests."""
    run: list[_Span] = []
    for span in spans:
        if run and run[-1].stops != span.starts:
            yield run
            run = []
        run.append(span)
    if run:
        yield run


class _Pieces:
    """Reads pieces of one file."""

    def __init__(self, file: DataFile, io: FileIO, table: str) -> None:
        self._path = file.path
        self._table = table
        self._opener = data_file_input(io, file.path, table=table)

    def __enter__(self) -> Self:
        with reading_data_file(self._path, table=self._table):
            self._source = self._opener.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def read(self, start: int, size: int) -> bytes:
        # Not around both files: an error names the file that it is about.
        with reading_data_file(self._path, table=self._table):
            self._source.seek(start)
            return self._source.read(size)


def _compare(run: Sequence[_Span], one: _Pieces, other: _Pieces, unequal: set[str]) -> None:
    """Adds the columns of a run whose bytes differ."""
    for begin in range(0, run[-1].stops[0] - run[0].starts[0], _PIECE_BYTES):
        first, second = (start + begin for start in run[0].starts)
        inside = [
            (span.name, max(0, span.starts[0] - first), min(_PIECE_BYTES, span.stops[0] - first))
            for span in run
            if span.name not in unequal and span.stops[0] > first and span.starts[0] < first + _PIECE_BYTES
        ]
        if not inside:
            continue
        size = min(_PIECE_BYTES, run[-1].stops[0] - first)
        here, there = one.read(first, size), other.read(second, size)
        if len(here) == size and here == there:
            continue
        # A piece that ends too early is of a damaged file, which the reader refuses.
        unequal.update(
            name for name, start, stop in inside if len(here) != size or here[start:stop] != there[start:stop]
        )
