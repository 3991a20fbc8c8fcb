"""The request of a reader and the answer of a node (docs/formats.md, section "Node requests")."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from icefloe.errors import TransientError

__all__ = ["NodeLostError", "Piece", "PieceFault"]

ANSWER: Final = pa.schema([("piece", pa.uint32()), ("fault", pa.string()), ("data", pa.binary())])
"""The bytes of the pieces, in the order of the request; a large piece takes several rows of the answer."""
BUSY: Final = (1 << 32) - 1
"""The place in the only row of an answer by which a node says that it is alive, and that it answers others first."""
_VERSION: Final = 1


class Piece(NamedTuple):
    """Some bytes of one data file.

    Attributes:
        path: below the folder of the node.
        size_bytes: size of the whole file by its commit record; a file of another size is damaged.
        start: first byte.
        stop: after the last byte.
    """

    path: str
    size_bytes: int
    start: int
    stop: int


class PieceFault(NamedTuple):
    """The reason why a node could not answer a piece; the map output must be made again."""

    reason: str


class NodeLostError(TransientError):
    """A node did not answer in time. Facts: its ``address``, and ``reason``."""

    address: str
    reason: str


class NodeBusyError(TransientError):
    """A node answers others all the time. Its map outputs are well."""

    address: str


class WrongAnswerError(TransientError):
    """An answer that no node of this release gives."""


class BadRequestError(TransientError):
    """A request that this release does not understand."""


def encode_pieces(pieces: Iterable[Piece]) -> bytes:
    """The ticket of a request.

    >>> encode_pieces([Piece("5f0c/7/0.0.a1.data", 90, 10, 20)])
    b'{"version":1,"pieces":[["5f0c/7/0.0.a1.data",90,10,20]]}'
    """
    return json.dumps({"version": _VERSION, "pieces": [list(each) for each in pieces]}, separators=(",", ":")).encode()


def decode_pieces(ticket: bytes) -> list[Piece]:
    """The pieces that a ticket asks for; whether they exist is another question.

    Raises:
        BadRequestError: it is no ticket of this version.
    """
    try:
        document: Any = json.loads(ticket)
        version, pieces = document["version"], [_piece(*each) for each in document["pieces"]]
    except (ValueError, TypeError, KeyError, RecursionError) as cause:
        raise BadRequestError("this is no request for pieces of map outputs") from cause
    if version != _VERSION:
        raise BadRequestError(f"this node answers requests of version {_VERSION}, and this one is of another")
    return pieces


def _piece(path: object, size_bytes: object, start: object, stop: object) -> Piece:
    if not isinstance(path, str) or not all(type(each) is int for each in (size_bytes, start, stop)):
        raise TypeError("a piece is a path and three numbers")
    return Piece(path, size_bytes, start, stop)  # type: ignore[arg-type]


def answer_batch(places: Sequence[int], faults: Sequence[str | None], parts: Sequence[bytes | None]) -> pa.RecordBatch:
    """Rows of an answer."""
    columns = [pa.array(places, pa.uint32()), pa.array(faults, pa.string()), pa.array(parts, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=ANSWER)


def large_batch(place: int, part: pa.Buffer) -> pa.RecordBatch:
    """A row of an answer with much data, which is not copied."""
    offsets = pa.py_buffer(np.array([0, len(part)], np.int32))
    data = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, part])
    columns = [pa.array([place], pa.uint32()), pa.array([None], pa.string()), data]
    return pa.RecordBatch.from_arrays(columns, schema=ANSWER)


def answered_rows(batch: pa.RecordBatch) -> Iterator[tuple[int, str | None, memoryview]]:
    """The rows of an answer; the bytes are not copied.

    Raises:
        WrongAnswerError: the answer has other columns, or offsets that its bytes do not have.
    """
    if not batch.schema.equals(ANSWER) or batch.column("piece").null_count:
        raise WrongAnswerError("its node answered in another form")
    try:
        # Arrow trusts what arrives, and would read whatever memory the offsets lead to.
        batch.validate(full=True)
    except pa.ArrowInvalid as cause:
        raise WrongAnswerError("its node answered in another form") from cause
    if not batch.num_rows:
        return
    data = batch.column("data")
    _, offsets, content = data.buffers()
    # Slices of one view take a fifth of the time that Arrow takes for one value after another.
    ends = np.frombuffer(offsets, np.int32)[data.offset : data.offset + batch.num_rows + 1].tolist()
    view = memoryview(b"" if content is None else content)
    for row, (place, fault) in enumerate(zip(batch["piece"].to_pylist(), batch["fault"].to_pylist(), strict=True)):
        yield place, fault, view[ends[row] : ends[row + 1]]


def joined_piece(parts: Sequence[memoryview], piece: Piece) -> memoryview | PieceFault:
    """The bytes of a piece from its parts. Bytes that are missing or too many are a fault."""
    found_bytes, expected_bytes = sum(map(len, parts)), piece.stop - piece.start
    if found_bytes != expected_bytes:
        return PieceFault(f"its node answered {found_bytes} bytes for {piece.start} to {piece.stop}")
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
