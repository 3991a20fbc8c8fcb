"""Rows of the table ``db.events`` of which four of five are in one reduce partition."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from changes.hash_values import KEY
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.coalesce import reduce_ids
from support.tables.events import SCHEMA

__all__ = ["HOT", "PARTITIONS", "skewed_ids", "skewed_rows"]

PARTITIONS: Final = 8
HOT: Final = 3


def skewed_ids(count: int) -> list[int]:
    """Ids of which four of five are in the reduce partition `HOT` of `PARTITIONS`."""
    candidates = np.arange(40 * count)
    is_hot = reduce_ids(RowHashes.of([pa.array(candidates)], key=KEY), PARTITIONS) == HOT
    hot, other = candidates[is_hot][: count * 4 // 5], candidates[~is_hot][: count // 5]
    return np.sort(np.concatenate([hot, other])).tolist()


def skewed_rows(ids: Sequence[int], value: float) -> pa.Table:
    """A row for each id; a third of them have the value, the others more."""
    return pa.table([ids, [value + each % 3 for each in ids], [f"word {each % 97}" for each in ids]], schema=SCHEMA)
