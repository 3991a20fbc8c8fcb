"""Extents: the blocks of map outputs that a reduce range consists of, planned once so that readers only fetch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.divided_partitions import NUM_PARTS, part_ids
from icefloe.shuffle.ordinal_sums import OrdinalSums

__all__ = ["RangeExtents"]

BLOCK: Final = np.dtype(
    [("output", "u4"), ("reduce_id", "u4"), ("crc32", "u4"), ("offset", "i8"), ("length", "i8"), ("rows", "i8"),
     ("part", "u1")]
)  # fmt: skip
"""One block that has rows: its map output by place, its partition, its CRC-32, its bytes in the data file, its part."""


class ShuffledFile(NamedTuple):
    """The data file of a map output.

    Attributes:
        data_key: key of the data file, in the store or at a node.
        data_size_bytes: size of the whole data file; another size in the store means damage.
        largest_block_bytes: size of the largest block of the map output, uncompressed; nothing larger is allocated for
            a block.
    """

    map_id: int
    generation: int
    data_key: str
    data_size_bytes: int
    largest_block_bytes: int


class EmbeddedBlocks(NamedTuple):
    """Neighbouring blocks of one data file.

    Attributes:
        start: place of the first byte in the data file.
        data: the blocks.
    """

    start: int
    data: memoryview

    def between(self, start: int, stop: int) -> "EmbeddedBlocks":
        """The bytes between two places in the data file."""
        return EmbeddedBlocks(start, self.data[start - self.start : stop - self.start])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RangeExtents:
    """All that a reduce task fetches: the blocks of its range, and the sums that their rows must add up to.

    Attributes:
        range_id: as in the coalesce plan, like ``start`` (inclusive) and ``stop`` (exclusive).
        files: data files of all map outputs, in the order of the map ids planned.
        blocks: array of `BLOCK`, ordered by map output, then by reduce partition. So neighbours of one map output are
            neighbours in its data file.
        ordinals: sums of the statistics files over the range; the reduce task checks its rows against them. Blocks that
            are shared with other ranges are not in it.
        parts: as in the coalesce plan.
        embedded: blocks that need no fetching, by the place of their data file in ``files``: for each all its blocks in
            the range.
    """

    range_id: int
    start: int
    stop: int
    files: Sequence[ShuffledFile]
    blocks: NDArray[Any]
    ordinals: tuple[OrdinalSums, ...]
    parts: tuple[int, int] | None = None
    embedded: Mapping[int, EmbeddedBlocks] = field(default_factory=dict)

    @property
    def most_rows(self) -> int:
        """Rows of the range; of blocks that other ranges share all rows count."""
        return int(self.blocks["rows"].sum())

    @property
    def size_bytes(self) -> int:
        """Compressed bytes of all blocks."""
        return int(self.blocks["length"].sum())

    def own_rows(self, identity_hashes: RowHashes) -> NDArray[np.int64]:
        """The positions of the rows that are in the range, among rows of its partition."""
        first, stop = self.parts or (0, NUM_PARTS)
        parts = part_ids(identity_hashes)
        return np.flatnonzero((parts >= first) & (parts < stop))

    def of_partition(self, reduce_id: int) -> "RangeExtents":
        """The blocks of one reduce partition of the range."""
        own = self.blocks[self.blocks["reduce_id"] == reduce_id]
        return replace(self, start=reduce_id, stop=reduce_id + 1, blocks=own)


def pieces_of(blocks: NDArray[Any]) -> Iterator[tuple[int, int, int]]:
    """For each data file that has some of the blocks: its place, and the bytes from the first to the last of them.

    Args:
        blocks: array of `BLOCK`, ordered by data file, neighbours in each.
    """
    first = np.flatnonzero(np.diff(blocks["output"].astype(np.int64), prepend=-1))
    last = np.append(first, len(blocks))[1:] - 1
    stops = blocks["offset"][last] + blocks["length"][last]
    return zip(blocks["output"][first].tolist(), blocks["offset"][first].tolist(), stops.tolist(), strict=True)
