"""The states of a checkpoint's batches, by which their files are kept or may go."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Self

from icefloe.checkpoint.log import Checkpoint


class BatchState(Enum):
    """The state of one batch."""

    ENDED = auto()
    """Whatever its outcome: nobody resumes it."""
    OPEN = auto()
    UNKNOWN = auto()
    """Its number is above the latest: the batch was never opened, or is being opened since the look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStates:
    """One look at a checkpoint. It can only be outdated in that more batches have begun and ended since.

    Attributes:
        checkpoint: the checkpoint.
        latest: the highest batch number; None before the first batch.
        is_open: true if that batch has no ending.
    """

    checkpoint: Checkpoint
    latest: int | None
    is_open: bool

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Self:
        """The states as they are now.

        Look only after the files were listed. A batch is recorded before its first file is written, so that the look
        knows the batch of every file that was listed.

        Raises:
            IcefloeError: the checkpoint cannot be read, or is damaged.
        """
        latest = checkpoint.latest_batch()
        return cls(
            checkpoint=checkpoint,
            latest=latest,
            is_open=latest is not None and checkpoint.committed(latest) is None,
        )

    @property
    def has_ended(self) -> bool:
        """True if there was a batch and none is open."""
        return self.latest is not None and not self.is_open

    def state(self, batch_number: int) -> BatchState:
        """The state of a batch: one is opened only when the one before has ended."""
        if self.latest is None or batch_number > self.latest:
            return BatchState.UNKNOWN
        return BatchState.OPEN if self.is_open and batch_number == self.latest else BatchState.ENDED

    def is_opened_now(self, batch_number: int) -> bool:
        """True if a batch was opened by a new look, also if it has ended since: it may have taken files for its own."""
        return type(self).of(self.checkpoint).state(batch_number) is not BatchState.UNKNOWN

    def is_open_now(self) -> bool:
        """True if a batch is open by a new look."""
        return type(self).of(self.checkpoint).is_open
