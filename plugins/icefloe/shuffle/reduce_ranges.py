"""Reduce ranges: neighbouring reduce partitions that one reduce task reads; created once per batch, never changed."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from icefloe.documents import STRICT, dump_document, load_document
from icefloe.storage.store import Store

__all__ = ["CoalescePlan", "ReduceRange", "create_coalesce_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceRange:
    """The reduce partitions ``start`` (inclusive) to ``stop`` (exclusive)."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    range_id: int
    start: int
    stop: int

    def __post_init__(self) -> None:
        """Refuse a range that no plan holds."""
        if not (self.range_id >= 0 and 0 <= self.start < self.stop):
            raise ValueError(
                f"a range has an id from 0 and start < stop, found {self.range_id}, {self.start}, {self.stop}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoalescePlan:
    """The document of a batch's reduce ranges, numbered from 0 in the order of their partitions."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    num_partitions: int
    target_size_bytes: int
    ranges: tuple[ReduceRange, ...]

    def __post_init__(self) -> None:
        """Refuse ranges that are misnumbered, overlap or leave the partitions."""
        stop = 0
        for number, each in enumerate(self.ranges):
            if each.range_id != number or each.start < stop or each.stop > self.num_partitions:
                raise ValueError(f"range {each} is misnumbered, overlaps the one before, or ends past the partitions")
            stop = each.stop


def create_coalesce_plan(store: Store, key: str, plan: CoalescePlan) -> CoalescePlan:
    """Creates the plan unless there is one; returns the plan that counts, so that a zombie and its retry agree."""
    # Results and extents are named after range ids. With other ranges under the same ids, the results of a first run
    # would count for other rows.
    if store.create(key, dump_document(plan)):
        return plan
    return load_document(CoalescePlan, store.get(key), what=f"the coalesce plan {store.url}/{key}")
