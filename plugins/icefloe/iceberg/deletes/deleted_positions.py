"""The positions that delete files delete from the data files of one map task."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyiceberg.io import FileIO
from pyroaring import BitMap64

from icefloe.iceberg.catalog.file_io import is_local
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.delete_file import DeleteFile, FileContent
from icefloe.iceberg.deletes.equality_deletes import EqualityDeletes
from icefloe.iceberg.deletes.position_deletes import read_position_deletes
from icefloe.iceberg.deletes.vector_prefetch import VectorPrefetch
from icefloe.iceberg.files.kept_footers import KeptFooters
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.storage.parallel import map_parallel

__all__ = ["DeletedPositions"]

_PARALLEL_READS: Final = 8
_READ_AHEAD_BYTES: Final = 32 << 20
"""The most bytes of position delete files that are read ahead at once; each file is read whole."""


class DeletedPositions:
    """Delete files resolved into positions: each is read once, when first asked for.

    Args:
        delete_files: the delete files of the task; their indexes in the sequence are their ids.
        equality_schemas: by the field ids of equality delete files, as from `equality_schema`.
        io: opens the files.
        table: its name, for errors.
        data_files: the data files of the task.
        memory_bytes: half of it for the keys of equality delete files (keys that do not fit are read again for each
            data file), half for deletion vectors. Compressed bitmaps with the positions of delete files come on top.
        footers: as for `read_data_file`, of data files whose keys are read.
    """

    def __init__(
        self,
        delete_files: Sequence[DeleteFile],
        *,
        equality_schemas: Mapping[tuple[int, ...], TableSchema],
        io: FileIO,
        table: str,
        data_files: Sequence[DataFile],
        memory_bytes: int,
        footers: KeptFooters | None = None,
    ) -> None:
        self._delete_files = delete_files
        self._io = io
        self._table = table
        self._data_files = frozenset(file.path for file in data_files)
        self._by_data_file: dict[int, Mapping[str, BitMap64]] = {}
        self._equality = EqualityDeletes(
            {
                delete_id: delete_file
                for delete_id, delete_file in enumerate(delete_files)
                if delete_file.content is FileContent.EQUALITY_DELETES
            },
            schemas=equality_schemas,
            io=io,
            table=table,
            memory_bytes=memory_bytes // 2,
            footers=footers,
        )
        self._vectors = VectorPrefetch(
            {
                delete_id: delete_file
                for delete_id, delete_file in enumerate(delete_files)
                if delete_file.is_deletion_vector
            },
            data_files=[file.path for file in data_files],
            io=io,
            table=table,
            memory_bytes=memory_bytes // 2,
        )

    def of(self, data_file: DataFile, delete_ids: Iterable[int]) -> dict[int, BitMap64]:
        """Positions that each of these delete files deletes from the data file, from 0 to its record count.

        The caller checks by sequence number and partition that a delete file applies to the data file.

        Args:
            data_file: one of the task.
            delete_ids: of delete files.

        Returns:
            A bitmap for each id; an equality delete file that deletes nothing may be missing. Bitmaps may be shared:
            change none.

        Raises:
            ValueError: the data file is not one of the task.
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
            positions = self._vectors[delete_id]
        else:
            positions = self._positions_in(delete_id).get(data_file.path, BitMap64())
        return _below(data_file.record_count, positions)

    def _positions_in(self, delete_id: int) -> Mapping[str, BitMap64]:
        if delete_id not in self._by_data_file:
            ahead = self._read_ahead(delete_id)
            read = map_parallel(self._read, ahead, name="icefloe-position-deletes")
            self._by_data_file |= zip(ahead, read, strict=True)
        return self._by_data_file[delete_id]

    def _read(self, delete_id: int) -> Mapping[str, BitMap64]:
        return read_position_deletes(
            self._delete_files[delete_id], data_files=self._data_files, io=self._io, table=self._table
        )

    def _read_ahead(self, delete_id: int) -> list[int]:
        """A position delete file and, if storage is remote, the next ones that are not read yet."""
        if is_local(self._delete_files[delete_id].path):
            return [delete_id]
        # One after another, a hundred small delete files on an object store would take a hundred round trips.
        ahead: list[int] = []
        size_bytes = 0
        for number in range(delete_id, len(self._delete_files)):
            delete_file = self._delete_files[number]
            is_of_keys = delete_file.content is FileContent.EQUALITY_DELETES
            if is_of_keys or delete_file.is_deletion_vector or number in self._by_data_file:
                continue
            size_bytes += delete_file.file_size_bytes
            if ahead and (size_bytes > _READ_AHEAD_BYTES or len(ahead) == _PARALLEL_READS):
                break
            ahead.append(number)
        return ahead


def _below(record_count: int, positions: BitMap64) -> BitMap64:
    if not positions or positions.max() < record_count:
        return positions
    inside = positions.copy()
    inside.remove_range(record_count, positions.max() + 1)
    return inside
