"""The end of a batch: one record for commit, abandon, reset and set-cursor, which differ in the outcome."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import ConfigDict

from icefloe.documents import LEFT_OUT_IF_FALSE, LEFT_OUT_IF_NONE, STRICT, SnapshotId
from icefloe.iceberg.step import LoadPart, RecordedSnapshot
from icefloe.units import time_of_ms

__all__ = ["BatchOutcome", "Cursor", "Ending"]


class BatchOutcome(StrEnum):
    """The end of a batch. Only the first kind delivers anything."""

    DELIVERED = "delivered"
    ABANDONED = "abandoned"
    CURSOR_SET = "cursor_set"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The place that a pipeline has come to with a batch, and that the next batch follows.

    Attributes:
        batch_number: of that batch.
        snapshot_id: None: before the table's first snapshot.
        snapshot: more than its id, which its writer may use again.
        load_part: last delivered part of an incomplete load.
        is_beginning: True if nothing counts as delivered, so that the next batch begins as ``initial_load`` says: after
            a reset, or an abandoned first batch.
        pipeline_since: number of the move, mostly a reset, whose offset records the pipeline; None: ``pipeline.json``
            does.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    batch_number: int
    snapshot_id: SnapshotId | None
    load_part: LoadPart | None = None
    is_beginning: Annotated[bool, LEFT_OUT_IF_FALSE] = False
    pipeline_since: Annotated[int | None, LEFT_OUT_IF_NONE] = None
    snapshot: Annotated[RecordedSnapshot | None, LEFT_OUT_IF_NONE] = None

    def __post_init__(self) -> None:
        if self.batch_number < 0:
            raise ValueError(f"batches are numbered from 0, found {self.batch_number}")

    @property
    def timestamp(self) -> str | None:
        """Commit time of the snapshot, ISO 8601; None if it was not recorded."""
        return None if self.snapshot is None else time_of_ms(self.snapshot.timestamp_ms)

    def is_at(self, other: "Cursor") -> bool:
        """True if both are the same place, whatever their batches."""
        return self == replace(other, batch_number=self.batch_number)

    def __str__(self) -> str:
        part = "" if self.load_part is None else f", {self.load_part} of its load"
        return f"snapshot {self.snapshot_id}{part}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of a batch.

    A batch is opened with the ending that it comes to if nobody gives it up: it delivers its range, or it only moves
    the cursor. So any run that ends it records the same ending.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    outcome: BatchOutcome
    cursor: Cursor

    def __post_init__(self) -> None:
        """Refuse a reset after which something counts as delivered."""
        if self.outcome is BatchOutcome.RESET and not self.cursor.is_beginning:
            raise ValueError(f"a reset leaves the pipeline at its beginning, found {self.cursor}")

    @property
    def batch_number(self) -> int:
        """Number of the batch."""
        return self.cursor.batch_number

    @property
    def is_move(self) -> bool:
        """True if the batch only moves the cursor."""
        return self.outcome in (BatchOutcome.CURSOR_SET, BatchOutcome.RESET)

    @classmethod
    def after(
        cls,
        follows: Cursor | None,
        outcome: BatchOutcome,
        *,
        snapshot_id: int | None = None,
        snapshot: RecordedSnapshot | None = None,
        load_part: LoadPart | None = None,
        has_pipeline: bool = False,
    ) -> "Ending":
        """The ending of the batch after a cursor, if the batch is not given up.

        Args:
            follows: None: the batch is the first one.
            load_part: part of a load that the batch delivers. After the last part, the snapshot is delivered as after
                any other batch.
            has_pipeline: True if the batch's offset has the record of the pipeline from here on.
        """
        number = 0 if follows is None else follows.batch_number + 1
        since = None if follows is None else follows.pipeline_since
        cursor = Cursor(
            batch_number=number,
            snapshot_id=snapshot_id,
            load_part=None if load_part is None or load_part.is_last else load_part,
            is_beginning=outcome is BatchOutcome.RESET,
            pipeline_since=number if has_pipeline else since,
            snapshot=snapshot,
        )
        return cls(outcome=outcome, cursor=cursor)

    @classmethod
    def delivered(cls, batch_number: int, snapshot_id: int | None) -> "Ending":
        """The ending of a delivered batch, as far as a run knows it; its offset has all of it."""
        return cls(outcome=BatchOutcome.DELIVERED, cursor=Cursor(batch_number=batch_number, snapshot_id=snapshot_id))

    @classmethod
    def abandoned(cls, follows: Cursor | None) -> "Ending":
        """The ending of a batch that is given up: the pipeline stays where it was."""
        if follows is None:
            return cls.abandoned_half_delivered(None)
        cursor = replace(follows, batch_number=follows.batch_number + 1)
        return cls(outcome=BatchOutcome.ABANDONED, cursor=cursor)

    @classmethod
    def abandoned_half_delivered(cls, follows: Cursor | None) -> "Ending":
        """The ending of a batch of which a sink may hold a part: a load comes next, and replaces that."""
        reset = cls.after(follows, BatchOutcome.RESET)
        return cls(outcome=BatchOutcome.ABANDONED, cursor=reset.cursor)
