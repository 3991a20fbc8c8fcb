"""One look at a checkpoint: everything that decides which batch comes next, read together."""

from dataclasses import dataclass

from icefloe.checkpoint.ending import Cursor
from icefloe.checkpoint.records import OffsetRecord, OwnerRecord, PipelineRecord

__all__ = ["CheckpointView"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointView:
    """The state of a checkpoint when a run looked. It may be outdated by the time it is used.

    That does no harm. A batch that is decided from a view names the view's ``cursor`` as the end that it follows. It
    can only be created as the very next batch after that end.

    Attributes:
        checkpoint_id: id from the owner's record or, if ``owners/`` is lost, from the last batch; None before the first
            batch.
        pipeline: record of the pipeline that the checkpoint was made for; None before its first batch.
        owner: record of the owner; None before the first batch.
        cursor: end of the last committed batch; None if no batch is committed.
        opened: offset record of the batch that was opened and is not done; None if there is none.
    """

    checkpoint_id: str | None = None
    pipeline: PipelineRecord | None = None
    owner: OwnerRecord | None = None
    cursor: Cursor | None = None
    opened: OffsetRecord | None = None

    @property
    def next_number(self) -> int:
        """The number of the batch that follows the cursor."""
        return 0 if self.cursor is None else self.cursor.batch_number + 1

    @property
    def backfilled_number(self) -> int | None:
        """The number of the batch by which a backfill delivered its range; None if it has not.

        A backfill is one batch, whatever the pipeline delivers meanwhile. So that batch follows only abandoned ones,
        which leave the cursor at the beginning.
        """
        if self.cursor is None or self.cursor.is_beginning:
            return None
        return self.cursor.batch_number

    @property
    def position(self) -> tuple[int, bool]:
        """Progress of the pipeline. It grows with each batch that is opened or committed."""
        return self.next_number, self.opened is not None
