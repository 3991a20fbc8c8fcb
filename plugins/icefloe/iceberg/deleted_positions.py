"""The positions that delete files delete from the data files of one map task."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyiceberg.io import FileIO
from pyroaring import BitMap64

from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.delete_file import DeleteFile, FileContent
from icefloe.iceberg.deletion_vector import read_deletion_vector
from icefloe.iceberg.equality_deletes import EqualityDeletes
from icefloe.iceberg.position_deletes import read_position_deletes
from icefloe.iceberg.table_schema import TableSchema

__all__ = ["DeletedPositions"]

_MEMORY_BYTES: Final = 256 << 20


class DeletedPositions:
    """Delete files resolved into positions: each is read once, when first asked for.

    Args:
        delete_files: those of the task; their places in the sequence are their ids.
        equality_schemas: by the field ids of equality delete files, as from `equality_schema`.
        io: opens the files.
        table: its name, for errors.
        data_files: those of the task.
        memory_bytes: what the keys of equality delete files may take; those that do not fit are read again for each
            data file. Positions are kept as compressed bitmaps beside them.
    """

    def __init__(
        self,
        delete_files: Sequence[DeleteFile],
        *,
        equality_schemas: Mapping[tuple[int, ...], TableSchema],
        io: FileIO,
        table: str,
        data_files: Sequence[DataFile],
        memory_bytes: int = _MEMORY_BYTES,
    ) -> None:
        self._delete_files = delete_files
        self._io = io
        self._table = table
        self._data_files = frozenset(file.path for file in data_files)
        self._named: dict[int, Mapping[str, BitMap64]] = {}
        self._equality = EqualityDeletes(
            {
                delete_id: delete_file
                for delete_id, delete_file in enumerate(delete_files)
                if delete_file.content is FileContent.EQUALITY_DELETES
            },
            schemas=equality_schemas,
            io=io,
            table=table,
            memory_bytes=memory_bytes,
        )

    def of(self, data_file: DataFile, delete_ids: Iterable[int]) -> dict[int, BitMap64]:
        """For each of these delete files the positions of the data file that it deletes, from 0 to its record count.

        Whether a delete file applies to the data file, by sequence number and partition, is for the caller to know.

        Args:
            data_file: one of the task.
            delete_ids: of delete files.

        Returns:
            A bitmap for each id, perhaps an empty one. They may be shared: change none.

        Raises:
            ValueError: the data file is none of the task.
            FileGoneError: a file does not exist.
            RecordCountError: a file has more or fewer rows than the table's metadata says.
            ColumnError: the key columns of a file cannot be read.
            NotBuiltError: a file is in a format that this release cannot read.
            TerminalError: a file is damaged or may not be read.
            TransientError: the storage did not answer.
        """
        if data_file.path not in self._data_files:
            raise ValueError(f"{data_file.path} is not among the {len(self._data_files)} data files of the task")
        by_key, by_position = set[int](), set[int]()
        for delete_id in delete_ids:
            is_by_key = self._delete_files[delete_id].content is FileContent.EQUALITY_DELETES
            (by_key if is_by_key else by_position).add(delete_id)
        found = self._equality.of(data_file, by_key)
        return found | {delete_id: self._by_position(data_file, delete_id) for delete_id in by_position}

    def _by_position(self, data_file: DataFile, delete_id: int) -> BitMap64:
        delete_file = self._delete_files[delete_id]
        if delete_file.referenced_data_file not in {None, data_file.path}:
            return BitMap64()
        if delete_file.is_deletion_vector:
            positions = read_deletion_vector(delete_file, io=self._io, table=self._table)
        else:
            positions = self._named_in(delete_id).get(data_file.path, BitMap64())
        return _below(data_file.record_count, positions)

    def _named_in(self, delete_id: int) -> Mapping[str, BitMap64]:
        if delete_id not in self._named:
            self._named[delete_id] = read_position_deletes(
                self._delete_files[delete_id], data_files=self._data_files, io=self._io, table=self._table
            )
        return self._named[delete_id]


def _below(record_count: int, positions: BitMap64) -> BitMap64:
    if not positions or positions.max() < record_count:
        return positions
    return positions & BitMap64(range(record_count))
