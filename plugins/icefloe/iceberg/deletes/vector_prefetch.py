"""The deletion vectors of one task, read ahead: many are side by side in one Puffin file, and storage may be remote."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from pyiceberg.io import FileIO
from pyroaring import BitMap64

from icefloe.iceberg.catalog.file_io import is_local
from icefloe.iceberg.delete_file import DeleteFile
from icefloe.iceberg.deletes.deletion_vector import read_deletion_vectors
from icefloe.storage.requests import map_parallel

_PARALLEL_READS: Final = 8
_GAP_BYTES: Final = 1 << 20
"""The largest gap that is fetched along with its neighbours instead of asking for each of them."""
_READ_BYTES: Final = 8 << 20
"""The most that one request fetches, unless one vector is larger."""


class VectorPrefetch:
    """Deletion vectors by number, a window of data files at a time.

    The first vector that is asked for brings the vectors of the next data files too, as many as fit into memory. One
    request fetches neighbours in one file. Several requests run at once if the storage is not this machine's disk.

    Args:
        vectors: by number; each applies to the data file that it references.
        data_files: their paths, in the order in which they are asked for.
        io: opens the files.
        table: its name, for errors.
        memory_bytes: the most that the vectors of a window may take, unless one data file has more.
    """

    def __init__(
        self,
        vectors: Mapping[int, DeleteFile],
        *,
        data_files: Sequence[str],
        io: FileIO,
        table: str,
        memory_bytes: int,
    ) -> None:
        self._vectors = vectors
        self._io = io
        self._table = table
        planned = list(windows(vectors, data_files, memory_bytes=memory_bytes))
        self._window_of = {number: window for window in planned for number in window}
        self._held: dict[int, BitMap64] = {}

    def __getitem__(self, number: int) -> BitMap64:
        """The positions that a vector deletes from its data file.

        Raises:
            FileGoneError: a file of the window does not exist.
            TerminalError: a vector of the window is damaged, or may not be read.
            TransientError: the storage did not answer.
        """
        if number not in self._held:
            # Freed first, so that two windows are never in memory.
            self._held = {}
            self._held = self._read(self._window_of[number])
        return self._held[number]

    def _read(self, window: Collection[int]) -> dict[int, BitMap64]:
        groups = list(neighbours({number: self._vectors[number] for number in window}))

        def read(group: Sequence[int]) -> list[BitMap64]:
            members = [self._vectors[number] for number in group]
            return read_deletion_vectors(members, io=self._io, table=self._table)

        is_near = all(is_local(self._vectors[number].path) for number in window)
        # Of a local disk one reader takes all there is.
        found = map_parallel(read, groups, at_once=1 if is_near else _PARALLEL_READS, name="icefloe-deletion-vectors")
        return {
            number: bitmap
            for group, bitmaps in zip(groups, found, strict=True)
            for number, bitmap in zip(group, bitmaps, strict=True)
        }


def windows(
    vectors: Mapping[int, DeleteFile], data_files: Sequence[str], *, memory_bytes: int
) -> Iterator[tuple[int, ...]]:
    """Windows of vectors that are in memory together: of consecutive data files, as many as fit."""
    by_data_file: dict[str, list[int]] = {path: [] for path in data_files}
    for number, vector in vectors.items():
        by_data_file.get(vector.referenced_data_file or "", []).append(number)
    window: list[int] = []
    window_bytes = 0
    for numbers in by_data_file.values():
        size_bytes = sum(vectors[number].size_bytes for number in numbers)
        if window and window_bytes + size_bytes > memory_bytes:
            yield tuple(window)
            window, window_bytes = [], 0
        window.extend(numbers)
        window_bytes += size_bytes
    if window:
        yield tuple(window)


def neighbours(vectors: Mapping[int, DeleteFile]) -> Iterator[tuple[int, ...]]:
    """Vectors that one request fetches: of one file, with little between them."""
    # Writers put the vectors of many data files into one Puffin file: sorted by place, neighbours take one request.
    in_order = sorted(vectors, key=lambda number: (vectors[number].path, *_place(vectors[number])))
    group: list[int] = []
    start = stop = 0
    for number in in_order:
        offset, size_bytes = _place(vectors[number])
        is_near = group and vectors[group[-1]].path == vectors[number].path and offset <= stop + _GAP_BYTES
        if not is_near or max(stop, offset + size_bytes) - start > _READ_BYTES:
            if group:
                yield tuple(group)
            group, start, stop = [], offset, offset
        group.append(number)
        stop = max(stop, offset + size_bytes)
    if group:
        yield tuple(group)


def _place(vector: DeleteFile) -> tuple[int, int]:
    return vector.content_offset or 0, vector.content_size_bytes or 0
