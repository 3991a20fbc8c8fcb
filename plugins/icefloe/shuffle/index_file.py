"""Index files: the position of each block in a map task's data file.

``num_blocks + 1`` big-endian signed 64-bit offsets, then the statistics (docs/developers/formats.md).
"""

import numpy as np
from numpy.typing import NDArray

from icefloe.errors import TransientError


class CorruptIndexError(TransientError):
    """The bytes of an index file are not what a map task wrote; its map output must be redone."""

    reason: str


def encode_index(offsets: NDArray[np.int64]) -> bytes:
    """The beginning of an index file, for ``num_blocks + 1`` offsets.

    >>> encode_index(np.array([0, 258])).hex()
    '00000000000000000000000000000102'
    """
    return offsets.astype(">i8").tobytes()


def index_bytes(num_blocks: int) -> int:
    """The length of the offsets of an index file; the statistics follow."""
    return 8 * (num_blocks + 1)


def decode_index(data: bytes, *, num_blocks: int, data_size_bytes: int) -> NDArray[np.int64]:
    """The offsets that an index file begins with.

    Block ``i`` is bytes ``offsets[i]`` to ``offsets[i + 1]`` of the data file.

    Raises:
        CorruptIndexError: the length does not fit the number of blocks, or the offsets do not rise from 0 to the
            data file's size.
    """
    expected_bytes = index_bytes(num_blocks)
    if len(data) != expected_bytes:
        raise _corrupt(f"{len(data)} bytes, but {num_blocks} blocks take {expected_bytes}")
    offsets = np.frombuffer(data, ">i8").astype(np.int64)
    # Equal neighbours are an empty block:  |0 0|1 1 1 1|3 3| has the offsets 0 2 6 6 8.
    if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any():
        raise _corrupt("its offsets do not rise from 0")
    if offsets[-1] != data_size_bytes:
        raise _corrupt(f"it ends at {offsets[-1]}, but the data file has {data_size_bytes} bytes")
    return offsets


def _corrupt(reason: str) -> CorruptIndexError:
    return CorruptIndexError(f"an index file is damaged: {reason}; its map task must run again", reason=reason)
