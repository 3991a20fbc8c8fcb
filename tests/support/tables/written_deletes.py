"""Delete files that tests write without Iceberg: Parquet through pyarrow, deletion vectors byte by byte."""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from icefloe.iceberg.data_file import DeleteFile, FileContent
from support.tables.written_tables import with_id

POSITION_DELETES = pa.schema(
    [
        with_id(2147483546, pa.field("file_path", pa.string(), nullable=False)),
        with_id(2147483545, pa.field("pos", pa.int64(), nullable=False)),
    ]
)
MAGIC = bytes.fromhex("d1d33964")


def write_position_deletes(
    path: Path, rows: Sequence[tuple[str | None, int | None]], *, schema: pa.Schema = POSITION_DELETES, **options: Any
) -> DeleteFile:
    """A Parquet position delete file; columns of the schema after the two are null."""
    columns = [[row[0] for row in rows], [row[1] for row in rows], *([None] * len(rows) for _ in schema.names[2:])]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    pq.write_table(pa.table(arrays, schema=schema), path, **options)
    return _describe(path, FileContent.POSITION_DELETES, "PARQUET", len(rows))


def write_equality_deletes(path: Path, keys: pa.Table, field_ids: Sequence[int], **options: Any) -> DeleteFile:
    """A Parquet equality delete file as the table of keys stands."""
    pq.write_table(keys, path, **options)
    found = _describe(path, FileContent.EQUALITY_DELETES, "PARQUET", keys.num_rows)
    return replace(found, equality_field_ids=tuple(field_ids))


def blob_of(positions: BitMap64) -> bytes:
    """A deletion vector as it lies in a Puffin file."""
    return framed(MAGIC + positions.serialize())


def framed(body: bytes) -> bytes:
    """A blob with the right length and checksum, whatever it holds."""
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def write_blob(
    path: Path, blob: bytes, *, data_file: str, record_count: int, before: bytes = b"PFA1", after: bytes = b"{}PFA1"
) -> DeleteFile:
    """A file that holds a blob among other bytes, described as a deletion vector."""
    path.write_bytes(before + blob + after)
    return replace(
        _describe(path, FileContent.POSITION_DELETES, "PUFFIN", record_count),
        referenced_data_file=data_file,
        content_offset=len(before),
        content_size_bytes=len(blob),
    )


def write_deletion_vector(path: Path, positions: BitMap64, *, data_file: str) -> DeleteFile:
    """A deletion vector of these positions."""
    return write_blob(path, blob_of(positions), data_file=data_file, record_count=len(positions))


def _describe(path: Path, content: FileContent, file_format: str, rows: int) -> DeleteFile:
    return DeleteFile(
        path=str(path),
        content=content,
        file_format=file_format,
        spec_id=0,
        record_count=rows,
        file_size_bytes=path.stat().st_size,
        sequence_number=1,
    )
