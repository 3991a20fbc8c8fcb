"""The results of a batch's reduce ranges: one record per range, created only if absent."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, Self

from pydantic import ConfigDict

from icefloe.batch.batch_keys import result_key
from icefloe.batch.context.batch_folder import load_batch_document
from icefloe.documents import STRICT, dump_document
from icefloe.shuffle.ordinal_sums import OrdinalSums
from icefloe.sinks.manifest import CommitMessage
from icefloe.storage.parallel import map_parallel
from icefloe.storage.store import KeyMissingError, Store

__all__ = ["RangeResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeResult:
    """The changes of one reduce range, written as a part.

    Attributes:
        sums: sums of the delivered changes; equal to the sums of the map outputs.
        fetched_bytes: compressed bytes fetched from map outputs.
        fetched_blocks: shuffle blocks in them.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    range_id: int
    message: CommitMessage
    sums: tuple[OrdinalSums, ...]
    fetched_bytes: int
    fetched_blocks: int
    seconds: float

    @classmethod
    def load(cls, store: Store, range_id: int) -> Self | None:
        """The result of a range; None if there is none yet."""
        try:
            return load_batch_document(cls, store, result_key(range_id), what="the range result")
        except KeyMissingError:
            return None

    @classmethod
    def load_all(cls, store: Store, range_ids: Sequence[int]) -> list[Self | None]:
        """`load` of each range, several at once, in the order given."""
        return map_parallel(partial(cls.load, store), range_ids, at_once=store.requests_at_once)

    @staticmethod
    def delete(store: Store, range_ids: Sequence[int]) -> None:
        """Removes results of an open batch whose parts are gone, so that their ranges are read again."""
        store.delete(result_key(range_id) for range_id in range_ids)

    def create(self, store: Store) -> "RangeResult":
        """Records the result unless there is one; returns the one that counts."""
        if store.create(result_key(self.range_id), dump_document(self)):
            return self
        # The record that was first may be gone again: the batch is cleaned up. The fence after this task finds it out.
        return self.load(store, self.range_id) or self
