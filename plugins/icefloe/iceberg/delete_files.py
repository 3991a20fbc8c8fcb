"""Which delete files reach which data files.

Source: https://iceberg.apache.org/spec/#scan-planning
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from icefloe.iceberg.delete_file import FileContent
from icefloe.iceberg.manifest_entries import DataEntry, DeleteEntry, DeleteId, Partition

__all__ = ["DeleteFiles"]

_FILE_PATH: Final = 2147483546
"""The reserved field id of the data file's path in a position delete file."""


class DeleteFiles:
    """The delete files in force at one state, found by data file.

    Args:
        delete_files: what the state's manifests list as live.
    """

    def __init__(self, delete_files: Iterable[DeleteEntry]) -> None:
        self._global: list[DeleteEntry] = []
        self._by_path: dict[str, list[DeleteEntry]] = defaultdict(list)
        self._by_partition: dict[Partition, list[DeleteEntry]] = defaultdict(list)
        for entry in delete_files:
            if entry.delete_file.content is FileContent.EQUALITY_DELETES and entry.is_unpartitioned:
                self._global.append(entry)
            elif entry.delete_file.referenced_data_file is not None:
                self._by_path[entry.delete_file.referenced_data_file].append(entry)
            else:
                self._by_partition[entry.partition].append(entry)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._global or self._by_path or self._by_partition)

    def of(self, data: DataEntry) -> dict[DeleteId, DeleteEntry]:
        """Those that can remove rows of a data file, by what tells them apart.

        Where a deletion vector is in force, position delete files are not: a writer merges them into it.
        """
        found = {entry.identity: entry for entry in self._candidates(data) if _can_apply(entry, data)}
        if any(entry.delete_file.is_deletion_vector for entry in found.values()):
            return {key: entry for key, entry in found.items() if not _is_position_delete_file(entry)}
        return found

    def _candidates(self, data: DataEntry) -> Iterator[DeleteEntry]:
        yield from self._global
        yield from self._by_path.get(data.data_file.path, ())
        yield from self._by_partition.get(data.partition, ())


def _can_apply(entry: DeleteEntry, data: DataEntry) -> bool:
    """Whether the spec lets a delete file remove rows of a data file."""
    deletes, data_file = entry.delete_file, data.data_file
    if deletes.content is FileContent.EQUALITY_DELETES:
        is_in_scope = entry.is_unpartitioned or entry.partition == data.partition
        return is_in_scope and data_file.sequence_number < deletes.sequence_number
    if data_file.sequence_number > deletes.sequence_number:
        return False
    if deletes.referenced_data_file is not None:
        return deletes.referenced_data_file == data_file.path
    return entry.partition == data.partition and _may_name(entry, data_file.path.encode())


def _may_name(entry: DeleteEntry, path: bytes) -> bool:
    lower, upper = entry.lower_bounds.get(_FILE_PATH), entry.upper_bounds.get(_FILE_PATH)
    if lower is not None and path < lower:
        return False
    # An upper bound may be cut: then it is the prefix's successor, still not below any path it bounds.
    return upper is None or path <= upper


def _is_position_delete_file(entry: DeleteEntry) -> bool:
    return entry.delete_file.content is FileContent.POSITION_DELETES and not entry.delete_file.is_deletion_vector
