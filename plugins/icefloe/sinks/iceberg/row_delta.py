"""Rows leave and enter a table in one snapshot: by position deletes, or by new files in place of the old ones."""

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.types import LongType, StringType

from icefloe.sinks.iceberg.target_files import WrittenFiles
from icefloe.sinks.iceberg.target_rows import FoundRows, TargetRows

_PATH_ID, _POSITION_ID = 2147483546, 2147483545
"""Field ids of the columns of position delete files, as the specification has them."""
_DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POSITION_ID)}),
    ]
)


def writes_position_deletes(transaction: Transaction) -> bool:
    """True if the table wants its rows deleted by position, as Spark's MERGE decides it."""
    metadata = transaction.table_metadata
    mode = metadata.properties.get("write.merge.mode", "copy-on-write")
    return metadata.format_version > 1 and mode == "merge-on-read"


def stage_row_delta(
    transaction: Transaction,
    target: TargetRows,
    found: Sequence[FoundRows],
    added: Sequence[DataFile],
    files: WrittenFiles,
    trace: dict[str, str],
) -> None:
    """Stage one snapshot without the rows found, and with the files added."""
    if not found:
        with transaction._append_snapshot_producer(trace) as append:  # noqa: SLF001
            for file in added:
                append.append_data_file(file)
        return
    if not writes_position_deletes(transaction):
        with transaction.update_snapshot(snapshot_properties=trace).overwrite() as overwrite:
            for rows in found:
                overwrite.delete_data_file(rows.task.file)
            for rows in found:
                for file in files.anew(transaction, _kept(transaction, target, rows)):
                    overwrite.append_data_file(file)
            for file in added:
                overwrite.append_data_file(file)
        return
    deletes = [_position_deletes(transaction, rows, files) for rows in found]
    counts = {
        "added-delete-files": str(len(deletes)),
        "added-position-delete-files": str(len(deletes)),
        "added-position-deletes": str(sum(file.record_count for file in deletes)),
    }
    io = transaction._table.io  # noqa: SLF001
    delta = RowDelta(Operation.OVERWRITE, transaction, io, None, {**trace, **counts})
    delta.deletes = deletes
    for file in added:
        delta.append_data_file(file)
    delta.commit()


class RowDelta(_FastAppendFiles):
    """An append that also adds position delete files."""

    deletes: Sequence[DataFile] = ()

    def _manifests(self) -> list[ManifestFile]:
        by_spec = defaultdict[int, list[DataFile]](list)
        for file in self.deletes:
            by_spec[file.spec_id].append(file)
        return [*super()._manifests(), *(self._delete_manifest(spec_id, by_spec[spec_id]) for spec_id in by_spec)]

    def _delete_manifest(self, spec_id: int, files: Sequence[DataFile]) -> ManifestFile:
        writer = _DeleteManifestWriter(
            self.spec(spec_id), self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression
        )
        with writer:
            for file in files:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                )
        return writer.to_manifest_file()


class _DeleteManifestWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _position_deletes(transaction: Transaction, rows: FoundRows, files: WrittenFiles) -> DataFile:
    """A delete file for the rows of one data file."""
    table, data_file = transaction._table, rows.task.file  # noqa: SLF001
    path = table.location_provider().new_data_location(f"{uuid.uuid4()}-deletes.parquet")
    files.note(path)
    output = table.io.new_output(path)
    paths = pa.repeat(pa.scalar(data_file.file_path), len(rows.positions))
    with output.create() as stream, pq.ParquetWriter(stream, _DELETES, compression="zstd") as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([paths, pa.array(rows.positions)], schema=_DELETES))
    files.note(path, len(output))
    positions = (int(rows.positions[0]), int(rows.positions[-1]))
    path_bytes = to_bytes(StringType(), data_file.file_path)
    low, high = ({_PATH_ID: path_bytes, _POSITION_ID: to_bytes(LongType(), position)} for position in positions)
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=data_file.partition,
        record_count=len(rows.positions),
        file_size_in_bytes=len(output),
        column_sizes={},
        value_counts={_PATH_ID: len(rows.positions), _POSITION_ID: len(rows.positions)},
        null_value_counts={_PATH_ID: 0, _POSITION_ID: 0},
        nan_value_counts={},
        lower_bounds=low,
        upper_bounds=high,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
        key_metadata=None,
    )
    deletes.spec_id = data_file.spec_id
    return deletes


def _kept(transaction: Transaction, target: TargetRows, rows: FoundRows) -> Iterator[pa.RecordBatch]:
    """The rows of a file that stay."""
    gone, first = np.union1d(rows.positions, rows.deleted), 0
    for batch in target.rows_of(rows.task, transaction.table_metadata.schema()):
        stays = ~np.isin(np.arange(first, first + batch.num_rows), gone)
        yield batch.filter(pa.array(stays))
        first += batch.num_rows
