"""Delete files: which data files they reach, and the refusal of those that this release cannot apply yet."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from icefloe.errors import NotBuiltError
from icefloe.iceberg.data_file import Constant, DataFile

__all__ = ["DeleteFile", "DeleteFileInForceError", "DeleteFiles", "FileContent", "Partition"]

Partition = tuple[int, tuple[Constant, ...]]
"""A spec id and the partition values of that spec."""


class FileContent(IntEnum):
    """What a content file holds, numbered as in the Iceberg spec."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class DeleteFileInForceError(NotBuiltError):
    """A delete file decides which rows are live; carries ``table``, ``snapshot_id`` and ``path``."""

    @classmethod
    def of(cls, table_name: str, snapshot_id: int, delete_file: "DeleteFile", why: str) -> "DeleteFileInForceError":
        """The refusal of one delete file; ``why`` says what it does at that snapshot."""
        return cls(
            f"delete file {delete_file.path} {why} at snapshot {snapshot_id} of table {table_name}, and merge-on-read "
            "tables are not built yet: compact the table and follow it from there, or write it copy-on-write",
            table=table_name, snapshot_id=snapshot_id, path=delete_file.path,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A position delete file, deletion vector or equality delete file that a snapshot lists.

    Attributes:
        path: its location; several deletion vectors share one Puffin file.
        content: POSITION_DELETES (deletion vectors too) or EQUALITY_DELETES.
        file_format: PARQUET, ORC, AVRO, or PUFFIN for a deletion vector.
        sequence_number: its data sequence number.
        partition: where it applies.
        is_unpartitioned: whether its spec has no fields, which makes equality deletes global.
        referenced_data_file: the only data file it applies to, if it says so.
        lower_path: the smallest data file path it names, UTF-8, perhaps cut; None where unknown.
        upper_path: the largest one.
        content_offset: where a deletion vector starts in its file.
        content_size_bytes: how long it is.
        equality_field_ids: the columns of an equality delete file.
        record_count: the positions or rows it deletes.
    """

    path: str
    content: FileContent
    file_format: str
    sequence_number: int
    partition: Partition
    is_unpartitioned: bool
    referenced_data_file: str | None = None
    lower_path: bytes | None = None
    upper_path: bytes | None = None
    content_offset: int | None = None
    content_size_bytes: int | None = None
    equality_field_ids: tuple[int, ...] = ()
    record_count: int = 0

    @property
    def identity(self) -> tuple[str, int | None]:
        """What tells it from other delete files of the table."""
        return self.path, self.content_offset

    def can_apply_to(self, data_file: DataFile, partition: Partition) -> bool:
        """Whether the spec lets it remove rows of ``data_file``.

        Source: https://iceberg.apache.org/spec/#scan-planning
        """
        if self.content is FileContent.EQUALITY_DELETES:
            is_in_scope = self.is_unpartitioned or self.partition == partition
            return is_in_scope and data_file.sequence_number < self.sequence_number
        if data_file.sequence_number > self.sequence_number:
            return False
        if self.referenced_data_file is not None:
            return self.referenced_data_file == data_file.path
        return self.partition == partition and self._may_name(data_file.path.encode())

    def _may_name(self, path: bytes) -> bool:
        if self.lower_path is not None and path < self.lower_path:
            return False
        # An upper bound may be cut: then it is the prefix's successor, still not below any path it bounds.
        return self.upper_path is None or path <= self.upper_path


class DeleteFiles:
    """The delete files in force at one state, found by data file.

    Args:
        delete_files: what the state's manifests list as live.
    """

    def __init__(self, delete_files: Iterable[DeleteFile]) -> None:
        self._global: list[DeleteFile] = []
        self._by_path: dict[str, list[DeleteFile]] = defaultdict(list)
        self._by_partition: dict[Partition, list[DeleteFile]] = defaultdict(list)
        for delete_file in delete_files:
            if delete_file.content is FileContent.EQUALITY_DELETES and delete_file.is_unpartitioned:
                self._global.append(delete_file)
            elif delete_file.referenced_data_file is not None:
                self._by_path[delete_file.referenced_data_file].append(delete_file)
            else:
                self._by_partition[delete_file.partition].append(delete_file)

    def of(self, data_file: DataFile, partition: Partition) -> Sequence[DeleteFile]:
        """Those that can remove rows of ``data_file``, in the order they were given."""
        candidates = [
            *self._global,
            *self._by_path.get(data_file.path, ()),
            *self._by_partition.get(partition, ()),
        ]
        return [delete_file for delete_file in candidates if delete_file.can_apply_to(data_file, partition)]
