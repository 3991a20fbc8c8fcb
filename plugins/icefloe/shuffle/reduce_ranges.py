"""Reduce ranges: neighbouring reduce partitions that one reduce task reads; created once per batch, never changed."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.documents import STRICT, dump_document, load_document
from icefloe.shuffle.divided_partitions import NUM_PARTS, part_ids
from icefloe.shuffle.reduce_ids import reduce_ids
from icefloe.storage.store import Store

__all__ = ["CoalescePlan", "create_coalesce_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceRange:
    """The reduce partitions ``start`` (inclusive) to ``stop`` (exclusive).

    Attributes:
        parts: of a range of one divided partition, its first part and the part after its last; None: all rows.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    range_id: int
    start: int
    stop: int
    parts: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Refuse a range that no plan holds."""
        if not (self.range_id >= 0 and 0 <= self.start < self.stop):
            raise ValueError(
                f"a range has an id from 0 and start < stop, found {self.range_id}, {self.start}, {self.stop}"
            )
        if self.parts is not None and not (
            self.stop == self.start + 1 and 0 <= self.parts[0] < self.parts[1] <= NUM_PARTS
        ):
            raise ValueError(
                f"only a range of one partition has parts, {NUM_PARTS} at most, found {self.parts} of {self.start} to "
                f"{self.stop}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoalescePlan:
    """The document of a batch's reduce ranges, numbered from 0 in the order of their partitions and parts.

    Attributes:
        hash_ranges: ranges of hash partitions, whose numbers and partitions go on from those of ``ranges``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    num_partitions: int
    target_size_bytes: int
    ranges: tuple[ReduceRange, ...]
    hash_ranges: tuple[ReduceRange, ...] = ()

    def __post_init__(self) -> None:
        """Refuse ranges that are misnumbered, overlap, leave the partitions, or leave out parts of a partition."""
        stop, stop_part = 0, NUM_PARTS
        for number, each in enumerate(self.ranges):
            if each.range_id != number or each.start < stop or each.stop > self.num_partitions:
                raise ValueError(f"range {each} is misnumbered, overlaps the one before, or ends past the partitions")
            # The parts of a partition go from range to range: 0 to 20, 20 to 41, 41 to 64.
            first_part, next_part = each.parts or (0, NUM_PARTS)
            if first_part != stop_part % NUM_PARTS or (first_part and each.start != stop):
                raise ValueError(f"range {each} does not begin where the parts of the range before end")
            stop, stop_part = each.stop - (next_part < NUM_PARTS), next_part
        if stop_part != NUM_PARTS:
            raise ValueError(f"the last range ends at part {stop_part} of {NUM_PARTS}")
        stop = self.num_partitions
        for number, each in enumerate(self.hash_ranges, len(self.ranges)):
            if each.range_id != number or each.start < stop or each.parts is not None:
                raise ValueError(f"range {each} of hash partitions is misnumbered, has parts, or begins too early")
            stop = each.stop

    @classmethod
    def of(
        cls,
        ranges: tuple[ReduceRange, ...],
        *,
        num_partitions: int,
        target_size_bytes: int,
        hash_ranges: tuple[ReduceRange, ...] = (),
    ) -> Self:
        """The document of ranges.

        Args:
            ranges: ranges of reduce partitions.
            num_partitions: number of reduce partitions.
            target_size_bytes: bytes that a range should hold.
            hash_ranges: ranges of hash partitions, numbered from 0 as are the hash partitions.
        """
        return cls(
            num_partitions=num_partitions,
            target_size_bytes=target_size_bytes,
            ranges=ranges,
            hash_ranges=tuple(
                ReduceRange(
                    range_id=len(ranges) + each.range_id,
                    start=num_partitions + each.start,
                    stop=num_partitions + each.stop,
                )
                for each in hash_ranges
            ),
        )

    def range_ids(self, identity_hashes: RowHashes) -> NDArray[np.int32]:
        """The range that each row is in; its reduce partition must have one."""
        places = reduce_ids(identity_hashes, self.num_partitions).astype(np.int64) * NUM_PARTS
        starts = np.array([each.start * NUM_PARTS + (each.parts or (0,))[0] for each in self.ranges])
        return (np.searchsorted(starts, places + part_ids(identity_hashes), side="right") - 1).astype(np.int32)

    @property
    def has_parts(self) -> bool:
        """True if some ranges are of parts of a partition."""
        return any(each.parts is not None for each in self.ranges)

    @property
    def all_ranges(self) -> tuple[ReduceRange, ...]:
        """The ranges of reduce partitions and of hash partitions, by range id."""
        return self.ranges + self.hash_ranges


def create_coalesce_plan(store: Store, key: str, plan: CoalescePlan) -> CoalescePlan:
    """Creates the plan unless there is one; returns the plan that counts, so that a zombie and its retry agree."""
    # Results and extents are named after range ids. With other ranges under the same ids, the results of a first run
    # would count for other rows.
    if store.create(key, dump_document(plan)):
        return plan
    return load_document(CoalescePlan, store.get(key), what=f"the coalesce plan {store.url}/{key}")
