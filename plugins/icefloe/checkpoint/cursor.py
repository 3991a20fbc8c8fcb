"""The place that a pipeline has come to, and the ways in which a batch can end."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import ConfigDict

from icefloe.documents import LEFT_OUT_IF_FALSE, LEFT_OUT_IF_NONE, STRICT, SnapshotId
from icefloe.iceberg.load_part import LoadPart
from icefloe.iceberg.recorded_snapshot import RecordedSnapshot
from icefloe.units import time_of_ms

__all__ = ["BatchOutcome", "Cursor"]


class BatchOutcome(StrEnum):
    """The end of a batch. Only the first kind delivers anything; the others leave a batch without changes."""

    DELIVERED = "delivered"
    ABANDONED = "abandoned"
    CURSOR_SET = "cursor_set"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The end of a batch, which the next batch follows.

    Attributes:
        batch_number: number of that batch.
        snapshot_id: None: before the table's first snapshot.
        snapshot: more of that snapshot than its id, which its writer may use again.
        load_part: last delivered part of a load that is not complete.
        is_beginning: True if nothing counts as delivered, so that the next batch begins as ``initial_load`` says:
            after a reset, and after a first batch that was abandoned.
        pipeline_since: number of the move, mostly a reset, whose offset has the record of the pipeline; None:
            ``pipeline.json`` has it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    batch_number: int
    snapshot_id: SnapshotId | None
    load_part: LoadPart | None = None
    is_beginning: Annotated[bool, LEFT_OUT_IF_FALSE] = False
    pipeline_since: Annotated[int | None, LEFT_OUT_IF_NONE] = None
    snapshot: Annotated[RecordedSnapshot | None, LEFT_OUT_IF_NONE] = None

    @property
    def timestamp(self) -> str | None:
        """Time of the snapshot's commit, ISO 8601; None if it was not recorded."""
        return None if self.snapshot is None else time_of_ms(self.snapshot.timestamp_ms)

    def at_batch(self, batch_number: int) -> "Cursor":
        """The same place as the end of a later batch that delivered nothing."""
        return replace(self, batch_number=batch_number)

    def is_at(self, other: "Cursor") -> bool:
        """True if both are the same place, whatever their batches."""
        return self == other.at_batch(self.batch_number)

    @classmethod
    def beginning(cls, batch_number: int, *, pipeline_since: int | None = None) -> "Cursor":
        """The end of a batch after which the pipeline begins, as if it were new."""
        return cls(batch_number=batch_number, snapshot_id=None, is_beginning=True, pipeline_since=pipeline_since)
