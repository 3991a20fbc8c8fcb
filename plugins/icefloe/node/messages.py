"""Messages between readers and nodes: names of files, requests, answers (docs/developers/formats.md)."""

import json
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from icefloe.errors import TransientError

__all__ = ["NodeLostError", "Piece", "PieceFault", "is_node_key", "split_node_key"]

READ: Final = "read_pieces"
DELETE: Final = "delete_batch"
ROW_BYTES: Final = 12
"""Bytes of a message in addition to those of a row."""
MOST_MESSAGE_BYTES: Final = 3 << 20
"""A node sends 2 MiB of a file at once, with some small pieces. A reader refuses a longer message before it is read."""
BUSY: Final = b""
"""The message by which a node says that it is alive, and that it answers others first."""
_VERSION: Final = 1


class Piece(NamedTuple):
    """Some bytes of one data file: ``start`` to ``stop`` (exclusive).

    Attributes:
        path: below the folder of the node.
        size_bytes: of the whole file by its commit record; another size is damage.
    """

    path: str
    size_bytes: int
    start: int
    stop: int


class PieceFault(NamedTuple):
    """The reason why a node could not answer a piece; the map output must be made again."""

    reason: str


class NodeLostError(TransientError):
    """A node did not answer in time; ``is_busy`` if it answered others meanwhile."""

    address: str
    reason: str
    is_busy: bool


def encode_pieces(pieces: Iterable[Piece]) -> bytes:
    """The ticket of a request.

    >>> encode_pieces([Piece("5f0c/7/0.0.a1.data", 90, 10, 20)])
    b'{"version":1,"pieces":[["5f0c/7/0.0.a1.data",90,10,20]]}'
    """
    return json.dumps({"version": _VERSION, "pieces": [list(each) for each in pieces]}, separators=(",", ":")).encode()


def decode_pieces(ticket: bytes) -> list[Piece]:
    """The pieces that a ticket asks for; they need not exist."""
    try:
        document: Any = json.loads(ticket)
        version, pieces = document["version"], [_piece(*each) for each in document["pieces"]]
    except (ValueError, TypeError, KeyError, RecursionError) as cause:
        raise ValueError("this is no request for pieces of map outputs") from cause
    if version != _VERSION:
        raise ValueError(f"this node answers requests of version {_VERSION}, and this one is of another")
    return pieces


def _piece(path: object, size_bytes: object, start: object, stop: object) -> Piece:
    if not isinstance(path, str) or not all(type(each) is int for each in (size_bytes, start, stop)):
        raise TypeError("a piece is a path and three numbers")
    return Piece(path, size_bytes, start, stop)  # type: ignore[arg-type]


def encode_rows(rows: Sequence[tuple[int, bool, bytes]]) -> bytes:
    heads = [number for place, is_fault, data in rows for number in (place, is_fault, len(data))]
    return b"".join((struct.pack(f">I{len(heads)}I", len(rows), *heads), *(data for *_, data in rows)))


def decode_rows(message: memoryview) -> Iterator[tuple[int, bool, memoryview]]:
    """The rows of a message, not copied."""
    try:
        count = int(np.frombuffer(message, ">u4", 1)[0])
        heads = np.frombuffer(message, ">u4", 3 * count, 4).reshape(count, 3).tolist()
    except ValueError as cause:
        raise ValueError("its node answered in another form") from cause
    at = 4 + ROW_BYTES * count
    if at + sum(length for *_, length in heads) != len(message):
        raise ValueError("its node answered in another form")
    for place, is_fault, length in heads:
        yield place, bool(is_fault), message[at : at + length]
        at += length


def whole_piece(data: memoryview, piece: Piece) -> memoryview | PieceFault:
    if len(data) != piece.stop - piece.start:
        return PieceFault(f"its node answered {len(data)} bytes for {piece.start} to {piece.stop}")
    return data


PATH: Final = re.compile(r"[0-9A-Za-z_-]+/[0-9]+/[0-9]+\.[0-9]+\.[0-9A-Za-z_-]+\.data")
"""The only paths that a node reads, writes or deletes: no segment can be ``..``, and none begins with a dot."""
BATCH: Final = re.compile(r"[0-9A-Za-z_-]+/[0-9]+")
"""The folder of a batch."""


def node_key(address: str, path: str) -> str:
    """The key of a file at a node.

    >>> node_key("worker-1:4995", "5f0c/7/0.0.a1.data")
    '//worker-1:4995/5f0c/7/0.0.a1.data'
    """
    return f"//{address}/{path}"


def is_node_key(key: str) -> bool:
    """True if the file is at a node, and not in the store.

    >>> is_node_key("//worker-1:4995/5f0c/7/0.0.a1.data"), is_node_key("0.0.a1.data")
    (True, False)
    """
    return key.startswith("//")


def split_node_key(key: str) -> tuple[str, str]:
    """The address of the node and the path there.

    >>> split_node_key("//worker-1:4995/5f0c/7/0.0.a1.data")
    ('worker-1:4995', '5f0c/7/0.0.a1.data')
    """
    address, _, path = key.removeprefix("//").partition("/")
    return address, path
