"""Fetching: the blocks of a reduce range, read by few requests and proven whole.

The store is asked once for each map output, a node once for all its map outputs.
"""

import io
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import BinaryIO, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.node.machine import Machine
from icefloe.node.node_folder import NodeLostError, Piece, PieceFault, split_node_key
from icefloe.shuffle.blocks import decode_block, stream_block
from icefloe.shuffle.committed_output import CorruptMapOutputError, LostOutputs, read_piece
from icefloe.shuffle.extents import RangeExtents, ShuffledFile, pieces_of
from icefloe.storage.local_folders import local_folders, on_local_disk
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import Store

__all__ = ["fetch_blocks"]

_CANNOT_KEEP: Final = "a large shuffle block cannot be kept on local disk"
_READ_BYTES: Final = 1 << 20
_LEAST_PIECE_BYTES: Final = 8 << 20


class FetchedBlock(NamedTuple):
    """The rows of one map task for one reduce partition."""

    reduce_id: int
    map_id: int
    batches: Iterator[pa.RecordBatch]  # must be read before the next block; a large block is decoded batch by batch


class _Piece(NamedTuple):
    output: int
    file: ShuffledFile
    start: int
    stop: int


def plan_fetch(extents: RangeExtents, *, max_fetch_bytes: int) -> Iterator[NDArray[np.int64]]:
    """Windows of about ``max_fetch_bytes``: places in ``extents.blocks``, by reduce partition, then by map output."""
    # Blocks of 3, 4, 9, 2 and 2 bytes with at most 8 at once:  3 4 | 9 | 2 2
    order = np.argsort(extents.blocks["reduce_id"], kind="stable")
    ends = np.cumsum(extents.blocks["length"][order])
    start = 0
    while start < len(order):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + max_fetch_bytes, side="right")))
        yield order[start:stop]
        start = stop


def fetch_blocks(
    store: Store,
    extents: RangeExtents,
    schema: pa.Schema,
    *,
    max_fetch_bytes: int,
    machine: Machine | None = None,
) -> Iterator[FetchedBlock]:
    """The blocks of a range: all of its first reduce partition, then of the next.

    Args:
        max_fetch_bytes: compressed bytes held at once; a larger block waits on local disk. Map outputs
            with a block of more bytes uncompressed are decoded message by message.
        machine: reads from nodes; None: as this process's environment says.

    Raises:
        CorruptMapOutputError: names the map output to void; the blocks yielded before were proven whole.
    """
    machine = machine or Machine()

    def read(pieces: Sequence[_Piece]) -> list[memoryview]:
        if not node_of(pieces[0].file):
            return [_read(store, piece) for piece in pieces]
        return _read_from_node(machine, extents.files, pieces)

    def fetched(pieces: Sequence[_Piece]) -> list[memoryview] | CorruptMapOutputError:
        try:
            return read(pieces)
        except CorruptMapOutputError as lost:
            if lost.nodes is None:
                raise
            # A value, so that all nodes that are lost are known at once.
            return lost

    for window in plan_fetch(extents, max_fetch_bytes=max_fetch_bytes):
        pieces = _pieces(extents, window)
        requests = _requests(pieces)
        with ExitStack() as stack:
            of_output: dict[int, tuple[_Piece, memoryview | BinaryIO]]
            first = pieces[0]
            if len(window) == 1 and first.stop - first.start > max_fetch_bytes:
                file = stack.enter_context(_on_disk(read, first, piece_bytes=max_fetch_bytes))
                of_output = {first.output: (first, file)}
            else:
                answers = found_or_lost(map_parallel(fetched, requests))
                of_output = {
                    piece.output: (piece, data)
                    for asked, answer in zip(requests, answers, strict=True)
                    for piece, data in zip(asked, answer, strict=True)
                }
            # One partition of all map outputs before the next, so that a reader can finish a partition and forget its
            # rows.
            for output, reduce_id, crc32, offset, length, rows in extents.blocks[window].tolist():
                piece, data = of_output[output]
                first_byte = offset - piece.start
                block = data[first_byte : first_byte + length] if isinstance(data, memoryview) else data
                source = _Block(extents.files, piece.file, reduce_id, length, crc32, rows)
                batches = source.batches(block, schema, streamed_above_bytes=max_fetch_bytes)
                yield FetchedBlock(reduce_id, piece.file.map_id, batches)


def _pieces(extents: RangeExtents, window: NDArray[np.int64]) -> list[_Piece]:
    """One piece per map output: its blocks are neighbours in the data file."""
    found = pieces_of(extents.blocks[np.sort(window)])
    return [_Piece(output, extents.files[output], start, stop) for output, start, stop in found]


def _requests(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """One request for each map output in the store, one for each node."""
    requests: dict[str | int, list[_Piece]] = {}
    for piece in pieces:
        requests.setdefault(node_of(piece.file) or piece.output, []).append(piece)
    return list(requests.values())


def _read(store: Store, piece: _Piece) -> memoryview:
    file = piece.file
    data = read_piece(
        store, file.data_key, piece.start, piece.stop, size_bytes=file.data_size_bytes, damage=partial(_corrupt, file)
    )
    return memoryview(data)


@contextmanager
def _on_disk(
    read: Callable[[Sequence[_Piece]], list[memoryview]], whole: _Piece, *, piece_bytes: int
) -> Iterator[BinaryIO]:
    with on_local_disk(_CANNOT_KEEP), tempfile.TemporaryFile(dir=local_folders()[0]) as file:
        for start in range(whole.start, whole.stop, max(piece_bytes, _LEAST_PIECE_BYTES)):
            stop = min(start + max(piece_bytes, _LEAST_PIECE_BYTES), whole.stop)
            [piece] = read([whole._replace(start=start, stop=stop)])
            file.write(piece)
        file.seek(0)
        yield cast("BinaryIO", file)


class _Block(NamedTuple):
    files: Sequence[ShuffledFile]
    file: ShuffledFile
    reduce_id: int
    size_bytes: int
    crc32: int
    rows: int

    def batches(
        self, data: memoryview | BinaryIO, schema: pa.Schema, *, streamed_above_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """The checksum is compared before anything is decoded, the number of rows at the end."""
        place = f"the block of reduce partition {self.reduce_id}"
        if _crc32(data) != self.crc32:
            raise self._damage(f"{place} does not match its checksum")
        most, found = self.file.largest_block_bytes, 0
        batches: Iterable[pa.RecordBatch]
        try:
            if isinstance(data, memoryview) and most <= streamed_above_bytes:
                batches = decode_block(data, schema, max_bytes=most)
            else:
                source = io.BytesIO(data) if isinstance(data, memoryview) else data
                batches = stream_block(source, schema, max_bytes=most)
            for batch in batches:
                found += batch.num_rows
                yield batch
        except ValueError as cause:
            raise self._damage(f"a shuffle block of {self.size_bytes} bytes: {cause}") from cause
        if found != self.rows:
            raise self._damage(f"{place} has {found} rows, expected {self.rows}")

    def _damage(self, reason: str) -> CorruptMapOutputError:
        """Of all files at a node: one that changed a byte is not asked for others, at the cost of more rounds."""
        damage = _corrupt(self.file, reason)
        return _lost(self.files, self.file, damage.reason) if node_of(self.file) else damage


def _crc32(data: memoryview | BinaryIO) -> int:
    if isinstance(data, memoryview):
        return zlib.crc32(data)
    crc32 = 0
    while piece := data.read(_READ_BYTES):
        crc32 = zlib.crc32(piece, crc32)
    data.seek(0)
    return crc32


def _corrupt(file: ShuffledFile, reason: str) -> CorruptMapOutputError:
    return CorruptMapOutputError.of(file.map_id, file.generation, reason)


def _read_from_node(machine: Machine, files: Sequence[ShuffledFile], wanted: Sequence[_Piece]) -> list[memoryview]:
    """In the order in which they are wanted."""
    first = wanted[0].file
    asked = [
        Piece(split_node_key(file.data_key)[1], file.data_size_bytes, start, stop) for _, file, start, stop in wanted
    ]
    try:
        answers = machine.read(node_of(first), asked)
    except NodeLostError as cause:
        raise _lost(files, first, cause.reason, is_busy=cause.is_busy) from cause
    found: list[memoryview] = []
    for (_, file, _, _), answer in zip(wanted, answers, strict=True):
        if isinstance(answer, PieceFault):
            raise _lost(files, file, f"{file.data_key}: {answer.reason}")
        found.append(answer)
    return found


def found_or_lost(answers: Sequence[list[memoryview] | CorruptMapOutputError]) -> list[list[memoryview]]:
    losses = [each for each in answers if isinstance(each, CorruptMapOutputError)]
    if losses:
        first, nodes = losses[0], tuple(node for each in losses for node in each.nodes or ())
        said = "; ".join(each.reason for each in losses)
        raise first.restated("; ".join(each.sentence for each in losses), reason=said, nodes=nodes) from first
    return [each for each in answers if not isinstance(each, CorruptMapOutputError)]


def node_of(file: ShuffledFile) -> str:
    """Empty: the file is in the store."""
    return split_node_key(file.data_key)[0]


def _lost(
    files: Sequence[ShuffledFile], file: ShuffledFile, reason: str, *, is_busy: bool = False
) -> CorruptMapOutputError:
    address = node_of(file)
    lost = tuple((each.map_id, each.generation) for each in files if node_of(each) == address)
    said = f"node {address}: {reason}"
    return CorruptMapOutputError(
        f"{said}; the {len(lost)} map outputs that it has must be made again, which go to the store then",
        map_id=file.map_id,
        generation=file.generation,
        reason=said,
        nodes=(LostOutputs(address, reason, lost, is_busy),),
    )
