"""The entries of Arrow's maps, taken from its buffers."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def map_entries(maps: pa.MapArray) -> tuple[pa.Array, pa.Array, NDArray[np.int64]]:
    """Keys and values of all maps that are not null, one after the other, and the number of entries of each map.

    >>> maps = pa.array([{"a": 1}, None, {"b": 2, "c": 3}], pa.map_(pa.string(), pa.int8()))
    >>> keys, values, lengths = map_entries(maps.slice(1))
    >>> keys.to_pylist(), values.to_pylist(), lengths.tolist()
    (['b', 'c'], [2, 3], [0, 2])
    """
    # Not by a cast to a list of structs: Arrow ends the process at some slices whose values have the type null inside.
    offsets = maps.offsets.to_numpy().astype(np.int64)
    start, entries = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, values, lengths = maps.keys.slice(start, entries), maps.items.slice(start, entries), np.diff(offsets)
    if not maps.null_count:
        return keys, values, lengths
    is_there = maps.is_valid().to_numpy(zero_copy_only=False)
    if lengths[~is_there].any():
        kept = pa.array(np.flatnonzero(np.repeat(is_there, lengths)))
        keys, values = keys.take(kept), values.take(kept)
    return keys, values, np.where(is_there, lengths, 0)
