"""Extents: the bytes of map outputs that a reduce range consists of, planned once so that readers only fetch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from icefloe.documents import STRICT
from icefloe.errors import TerminalError
from icefloe.shuffle.committed_output import CommittedOutput
from icefloe.shuffle.ordinal_sums import OrdinalSums
from icefloe.shuffle.reduce_ranges import ReduceRange

__all__ = ["Extent", "RangeExtents", "plan_extents"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The blocks of one reduce range in one map output: neighbours in its data file.

    Attributes:
        data_key: key of the data file.
        data_size_bytes: size of the whole data file; another size in the store means damage.
        offset: offset of the first block.
        length: length of all blocks together.
        rows: rows in all blocks together.
        largest_block_bytes: size of the largest block of the whole map output, uncompressed; nothing larger is
            allocated for a block.
        block_lengths: length of the block of each reduce partition of the range; 0 if it is empty.
        block_rows: rows of the block of each reduce partition of the range; 0 if it is empty.
        block_crc32: CRC-32 of the block of each reduce partition of the range; 0 if it is empty.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    map_id: int
    generation: int
    data_key: str
    data_size_bytes: int
    offset: int
    length: int
    rows: int
    largest_block_bytes: int
    block_lengths: tuple[int, ...]
    block_rows: tuple[int, ...]
    block_crc32: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeExtents:
    """The document that a reduce task reads: its range, its extents, and the sums that its rows must add up to.

    Attributes:
        range_id: as in the coalesce plan, like ``start`` (inclusive) and ``stop`` (exclusive).
        extents: extents of every map output that holds rows of the range, in the order of the map ids planned.
        ordinals: sums of the statistics files over the range; the reduce task checks its rows against them.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    range_id: int
    start: int
    stop: int
    extents: tuple[Extent, ...]
    ordinals: tuple[OrdinalSums, ...]

    def __post_init__(self) -> None:
        """Refuse extents whose blocks do not fill them."""
        partitions = self.stop - self.start
        for each in self.extents:
            blocks = {len(each.block_lengths), len(each.block_rows), len(each.block_crc32)}
            if blocks != {partitions} or sum(each.block_lengths) != each.length or sum(each.block_rows) != each.rows:
                raise ValueError(f"the blocks of map {each.map_id} do not fill its extent of {partitions} partitions")


def plan_extents(ranges: Sequence[ReduceRange], outputs: Sequence[CommittedOutput]) -> list[RangeExtents]:
    """One document per range, in their order; a map output without rows in a range has no extent there.

    Args:
        ranges: ranges of the coalesce plan.
        outputs: output of every planned map task.

    Raises:
        TerminalError: a map output holds rows of a reduce partition that no range covers; they would be lost.
    """
    extents: list[list[Extent]] = [[] for _ in ranges]
    sums: list[dict[int, OrdinalSums]] = [{} for _ in ranges]
    for output in outputs:
        rows = output.statistics.partition_rows(len(output.block_crc32))
        for position, each in enumerate(ranges):
            extent = _extent(each, output, rows)
            if extent is not None:
                extents[position].append(extent)
                _add(sums[position], output.statistics.sums(each.start, each.stop))
        planned_rows = sum(int(rows[each.start : each.stop].sum()) for each in ranges)
        if planned_rows != output.record.rows:
            raise TerminalError(
                f"map task {output.record.map_id} has {output.record.rows} rows and the reduce ranges cover "
                f"{planned_rows}; the ranges belong to other map outputs, report this as a bug",
                map_id=output.record.map_id,
            )
    return [
        RangeExtents(
            range_id=each.range_id,
            start=each.start,
            stop=each.stop,
            extents=tuple(of_range),
            ordinals=tuple(by_ordinal[ordinal] for ordinal in sorted(by_ordinal)),
        )
        for each, of_range, by_ordinal in zip(ranges, extents, sums, strict=True)
    ]


def _extent(of: ReduceRange, output: CommittedOutput, rows: NDArray[np.int64]) -> Extent | None:
    # A data file is ordered by reduce partition, so what a range needs of it is one piece and takes one request:
    #   data file   0 0 | 1 1 1 | 3 | 4 4      partition 2 is empty
    #   range 1:4         ---------            its block_lengths are 3, 0, 1
    offsets = output.offsets[of.start : of.stop + 1]
    data = output.record.data
    if data is None or offsets[0] == offsets[-1]:
        return None
    partitions = slice(of.start, of.stop)
    return Extent(
        map_id=output.record.map_id,
        generation=output.record.generation,
        data_key=data.key,
        data_size_bytes=data.size_bytes,
        offset=int(offsets[0]),
        length=int(offsets[-1] - offsets[0]),
        rows=int(rows[partitions].sum()),
        largest_block_bytes=output.record.largest_block_bytes,
        block_lengths=tuple(np.diff(offsets).tolist()),
        block_rows=tuple(rows[partitions].tolist()),
        block_crc32=tuple(output.block_crc32[partitions].tolist()),
    )


def _add(sums: dict[int, OrdinalSums], more: Sequence[OrdinalSums]) -> None:
    for each in more:
        old = sums.get(each.change_ordinal)
        sums[each.change_ordinal] = each if old is None else old + each
