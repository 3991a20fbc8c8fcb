"""Extents as tests of the shuffle need them: of map outputs that are committed in a store."""

from collections.abc import Sequence

import pyarrow as pa

from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.committed_output import MapOutputLog, MapOutputRecord
from icefloe.shuffle.extents import CollectedBlocks, RangeExtents
from icefloe.storage.store import Store

__all__ = ["planned_extents"]


def planned_extents(
    store: Store,
    records: Sequence[MapOutputRecord],
    ranges: Sequence[ReduceRange],
    *,
    table_schema: pa.Schema,
    num_partitions: int,
) -> list[RangeExtents]:
    """The extents of each range over the map outputs of the records; the error of the first that is damaged."""
    outputs, damaged = MapOutputLog(store).read(
        records, schema=BlockRows.schema(table_schema), num_partitions=num_partitions
    )
    for damage in damaged:
        raise damage
    with CollectedBlocks(num_partitions) as collected:
        for output in outputs:
            collected.add(output)
        return list(collected.extents(ranges))
