"""Row hashes from and to Python's integers, and a strategy for hashes that often share a lane."""

import numpy as np
from hypothesis import strategies as st

from icefloe.changes.row_hash.row_hashes import RowHashes
from support.known_key import KEY

__all__ = ["KEY", "colliding_hashes", "cut", "hashes_of", "numbers"]

_LANES = st.sampled_from([0, 1, 2, 2**63, 2**63 + 1, 2**64 - 1])
colliding_hashes = st.builds(lambda high, low: high << 64 | low, _LANES, _LANES)


def hashes_of(values):
    high, low = ([value >> shift & 2**64 - 1 for value in values] for shift in (64, 0))
    return RowHashes(np.array(high, np.uint64), np.array(low, np.uint64))


def numbers(hashes):
    return [hashes[index] for index in range(len(hashes))]


def cut(hashes, start, stop):
    return hashes.take(np.arange(len(hashes))[start:stop])
