"""An ORC data file, opened: Arrow batches of its own columns, in bounded memory.

pyarrow's ``ORCFile`` decodes whole stripes, its dataset scanner batch by batch.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import orc
from pyiceberg.io import InputStream

from icefloe.errors import one_line
from icefloe.iceberg.files.opened_file import BATCH_BYTES
from icefloe.iceberg.unreadable import ColumnError, UndecodableError

_MEASURED_ROWS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcRows:
    """The rows of one file."""

    fragment: ds.FileFragment
    num_rows: int
    batch_rows: int  # at most; fewer than asked for if rows are large

    @classmethod
    def open(cls, source: InputStream, *, batch_rows: int) -> Self:
        """Read the footer, and the first rows for their size."""
        with _decoding():
            footer = orc.ORCFile(source)
            fragment = ds.OrcFileFormat().make_fragment(source)
            row_bytes = _row_bytes(footer, fragment)
        return cls(
            fragment=fragment,
            num_rows=footer.nrows,
            batch_rows=min(batch_rows, max(1, int(BATCH_BYTES / row_bytes))),
        )

    @property
    def schema(self) -> pa.Schema:
        """The file's columns, with the attributes of their ORC types."""
        return self.fragment.physical_schema

    def group_runs(self) -> Iterator[tuple[int, int, list[int]]]:
        """One run: pyarrow does not show the rows of a stripe."""
        if self.num_rows:
            yield 0, self.num_rows, [0]

    def batches(self, groups: Sequence[int], columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows of the file; ``groups`` is its only run."""
        del groups
        names = self.schema.names if columns is None else list(columns)
        _refuse_paths(names, self.schema)
        scanner = ds.Scanner.from_fragment(
            self.fragment,
            columns=names,
            batch_size=self.batch_rows,
            use_threads=False,
            batch_readahead=1,
            fragment_readahead=1,
        )
        with _decoding():
            yield from scanner.to_batches()


def _row_bytes(footer: orc.ORCFile, fragment: ds.FileFragment) -> float:
    """Approximate, by first rows and average; at least 1."""
    rows = max(footer.nrows, 1)
    # Without timestamps: one that pyarrow cannot hold would stop those who do not read it.
    names = [field.name for field in fragment.physical_schema if not _holds_timestamps(field.type)]
    head = fragment.head(_MEASURED_ROWS, columns=names, batch_size=_MEASURED_ROWS, use_threads=False)
    return max(1.0, head.nbytes / max(head.num_rows, 1), footer.content_length / rows)


def _refuse_paths(names: Sequence[str], schema: pa.Schema) -> None:
    """Refuse a column named like a path into another: pyarrow reads nulls."""
    for name in names:
        parts = name.split(".")
        parents = {".".join(parts[:length]) for length in range(1, len(parts))}
        if not parents.isdisjoint(schema.names):
            raise ColumnError(
                f"column {name!r} has the same path as a field of another column: rewrite the file with another name"
            )


def _holds_timestamps(kind: pa.DataType) -> bool:
    inside = (kind.field(place).type for place in range(kind.num_fields))
    return pa.types.is_timestamp(kind) or any(map(_holds_timestamps, inside))


@contextmanager
def _decoding() -> Iterator[None]:
    """Arrow reports damage as an OSError; an error of the disk sets errno."""
    try:
        yield
    except (pa.ArrowException, OSError) as cause:
        is_damage = cause.errno is None if isinstance(cause, OSError) else type(cause) is pa.ArrowException
        if not is_damage:
            raise
        raise UndecodableError(one_line(cause)) from cause
