"""The readers of bytes that others may have written, each with valid bytes to damage."""

import gzip
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, StringType
from pyroaring import BitMap64

from icefloe.iceberg.catalog.catalog_errors import decoded_metadata, reading_metadata
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.deletes.deleted_positions import DeletionVectors, read_position_deletes
from icefloe.iceberg.history.loaded_table import MetadataVersion
from icefloe.iceberg.manifests.manifest_avro import read_manifest_entries, read_manifest_list
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.pipeline.model import Pipeline
from support.tables.planning_tables import make_table, rows
from support.tables.written_deletes import blob_of, framed, write_blob, write_position_deletes
from support.tables.written_tables import local_io, optional, reader, with_id

__all__ = ["READERS", "ForeignReader"]

COLUMNS: Final = TableSchema.of(Schema(optional("id", LongType()), optional("name", StringType(), 2)))
ROWS: Final = 300
VECTORS: Final = (BitMap64([0, 3, 4, 5, 70_000, 2**32 + 5]), BitMap64(range(1000)), BitMap64(range(0, 9_000, 2)))
YAML: Final = b"""version: 1
catalog: &lake {name: lab, "uri": 'sqlite:///catalog.db'}
table: nyc.flights   # comment
identifier_columns: [flight_id, "day"]
storage: file:///var/icefloe
filter: |
  carrier = 'AA'
  and delay > 1.5
sink: {type: files, path: file:///var/changes}
shuffle: {memory_bytes: 64MiB, partitions: 4}
max_steps_per_batch: 100
"""


@dataclass(frozen=True, kw_only=True)
class ForeignReader:
    """A reader.

    Attributes:
        valid: makes bytes that can be read, below an empty folder.
        read: reads bytes that were put into a file.
        is_sealed: whether a checksum covers all bytes, so that damaged ones are never taken for valid ones.
        repair: makes a checksum fit the damaged bytes, as a hostile writer does.
        most_examples: of damages, the same ones each time; None: as many as are asked for, others each time.
    """

    valid: Callable[[Path], Sequence[bytes]]
    read: Callable[[Path], Any]
    is_sealed: bool = False
    repair: Callable[[bytes], bytes] = bytes
    most_examples: int | None = None


def _manifests(folder: Path) -> Sequence[bytes]:
    return [path.read_bytes() for path in _metadata(folder) if not path.name.startswith("snap-")]


def _manifest_lists(folder: Path) -> Sequence[bytes]:
    return [path.read_bytes() for path in _metadata(folder) if path.name.startswith("snap-")]


def _metadata(folder: Path) -> Iterator[Path]:
    table = make_table(folder)
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    return folder.rglob("*.avro")


def _read_manifest(path: Path) -> list[Any]:
    with reading_metadata("db.t", "manifest", str(path)):
        return list(read_manifest_entries(local_io(), str(path)))


def _read_manifest_list(path: Path) -> list[Any]:
    with reading_metadata("db.t", "manifest list", str(path)):
        return read_manifest_list(local_io(), str(path))


def _metadata_files(folder: Path) -> Sequence[bytes]:
    table = make_table(folder)
    table.append(rows(1))
    plain = Path(table.metadata_location.removeprefix("file://")).read_bytes()
    return [plain, gzip.compress(plain, mtime=0)]


def _read_metadata(path: Path) -> MetadataVersion:
    content = path.read_bytes()
    named = path.with_suffix(".gz.metadata.json" if content.startswith(b"\x1f") else ".metadata.json")
    named.write_bytes(content)
    with reading_metadata("db.t", "metadata file", str(named)):
        return MetadataVersion.of(decoded_metadata(local_io().new_input(str(named)), json.loads))


def _read_vector(path: Path, record_count: int | None = None) -> list[BitMap64]:
    blob = path.read_bytes()
    counts = {len(blob_of(vector)): len(vector) for vector in VECTORS}
    written = write_blob(path, blob, data_file="f", record_count=record_count or counts.get(len(blob), 1000))
    return [DeletionVectors(reader(), memory_bytes=1).read(written)]


def _forged(blob: bytes) -> bytes:
    return framed(blob[4:-4])


def _position_deletes(folder: Path) -> Sequence[bytes]:
    named = [("f", position) for position in range(ROWS)]
    for name, options in (("plain", {"compression": "none"}), ("packed", {"compression": "zstd"})):
        write_position_deletes(folder / name, named, **options)
    return [(folder / name).read_bytes() for name in ("plain", "packed")]


def _read_position_deletes(path: Path) -> Any:
    described = replace(
        write_position_deletes(path.with_suffix(".other"), [("f", 1)]),
        path=str(path), record_count=ROWS, file_size_bytes=path.stat().st_size,
    )  # fmt: skip
    return read_position_deletes(described, reader(), data_files=frozenset({"f"}))


def _parquet_files(folder: Path) -> Sequence[bytes]:
    schema = pa.schema([with_id(1, pa.field("id", pa.int64())), with_id(2, pa.field("name", pa.string()))])
    names = [None if number % 7 == 0 else f"name {number % 13}" for number in range(ROWS)]
    made = pa.table([list(range(ROWS)), names], schema=schema)
    found = []
    for options in (
        {"compression": "none", "use_dictionary": False},
        {"compression": "zstd"},
        {"compression": "snappy"},
    ):
        written = io.BytesIO()
        pq.write_table(made, written, row_group_size=100, **options)
        found.append(written.getvalue())
    return found


def _read_data_file(path: Path, file_format: str) -> int:
    file = DataFile(
        path=str(path), file_format=file_format, spec_id=0, record_count=ROWS, file_size_bytes=path.stat().st_size
    )
    return sum(batch.num_rows for _, batch in reader().rows(file, COLUMNS))


def _orc_files(_: Path) -> Sequence[bytes]:
    ids = [{b"iceberg.id": str(number).encode()} for number in (1, 2)]
    schema = pa.schema([pa.field("id", pa.int64(), metadata=ids[0]), pa.field("name", pa.string(), metadata=ids[1])])
    names = [None if number % 7 == 0 else f"name {number % 13}" for number in range(ROWS)]
    made = pa.table([list(range(ROWS)), names], schema=schema)
    found = []
    for codec in ("zlib", "zstd", "snappy", "uncompressed"):
        written = io.BytesIO()
        orc.write_table(made, written, compression=codec, stripe_size=1024)
        found.append(written.getvalue())
    return found


READERS: Final = {
    "metadata files": ForeignReader(valid=_metadata_files, read=_read_metadata),
    "manifests": ForeignReader(valid=_manifests, read=_read_manifest),
    "manifest lists": ForeignReader(valid=_manifest_lists, read=_read_manifest_list),
    "deletion vectors": ForeignReader(valid=lambda _: [*map(blob_of, VECTORS)], read=_read_vector, is_sealed=True),
    "forged vectors": ForeignReader(valid=lambda _: [*map(blob_of, VECTORS)], read=_read_vector, repair=_forged),
    "position deletes": ForeignReader(valid=_position_deletes, read=_read_position_deletes),
    "Parquet files": ForeignReader(valid=_parquet_files, read=lambda path: _read_data_file(path, "PARQUET")),
    # Arrow's decoder in C++ ends the process for about one damage in 5,000: a soak must not try as many.
    "ORC files": ForeignReader(valid=_orc_files, read=lambda path: _read_data_file(path, "ORC"), most_examples=400),
    "pipeline files": ForeignReader(valid=lambda _: [YAML], read=lambda path: Pipeline.load(path, environ={})),
}
