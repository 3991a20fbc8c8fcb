"""One look at a checkpoint: everything that decides which batch comes next, read together."""

from dataclasses import dataclass

from icefloe.checkpoint.records import Cursor, OffsetRecord, OwnerRecord, PipelineRecord

__all__ = ["CheckpointView"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointView:
    """What a checkpoint said when a run looked. It may be outdated by the time it is used.

    That does no harm: a batch that is decided from it names its ``cursor`` as the one it follows, and can only be
    created as the very next batch behind that.

    Attributes:
        checkpoint_id: of the owner; if ``owners/`` is lost, of the last batch; None before it, and in format 1.
        pipeline: what the checkpoint was made for; None before its first batch.
        owner: whose it is; None before its first batch, and in checkpoints of format 1.
        cursor: the end of the last committed batch; None before it.
        opened: the batch that was opened and is not done.
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
    def position(self) -> tuple[int, bool]:
        """How far the pipeline is: it grows with each batch that is opened and each that is committed."""
        return self.next_number, self.opened is not None
