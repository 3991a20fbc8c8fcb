"""Files that nobody needs any more, and their deletion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.protocol import BatchState
from icefloe.storage.keys import join_url
from icefloe.storage.store import Store, StoredObject

__all__ = ["Leftover"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStates:
    """One look at a checkpoint. It is outdated only if more batches have begun and ended since."""

    checkpoint: Checkpoint
    latest: int | None
    is_open: bool

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Self:
        """Look after the files were listed: a batch is recorded before its first file is written."""
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
        """Free, open or ended; a free number may have been opened since the look."""
        if self.latest is None or batch_number > self.latest:
            return BatchState.FREE
        return BatchState.OPEN if self.is_open and batch_number == self.latest else BatchState.ENDED

    def is_opened_now(self, batch_number: int) -> bool:
        """True if a new look finds the batch opened, even if it has ended since: files may have become its own."""
        return type(self).of(self.checkpoint).state(batch_number) is not BatchState.FREE

    def is_open_now(self) -> bool:
        """True if a new look finds an open batch."""
        return type(self).of(self.checkpoint).is_open


class Reason(StrEnum):
    """Why files may go."""

    ENDED = "the batch has ended"
    UNNAMED = "no manifest names them"
    OLD = "old, of no batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Files that may be deleted: some keys, or a folder.

    Attributes:
        pipeline: None if the files do not say.
        batch_number: None if the files are of no batch.
        objects: number of the files in the survey; ``size_bytes`` are their bytes.
        keys: single files.
        folder: a key taken as a folder, which is listed again for the deletion; None: only the keys.
        is_due: True for a file of the folder that may go; None: all may.
        is_opened: asked right before the deletion, because a batch may have been opened; None: that does not matter.
    """

    store: Store
    pipeline: str | None
    backfill_id: str | None = None
    batch_number: int | None = None
    reason: Reason
    objects: int
    size_bytes: int
    keys: tuple[str, ...] = ()
    folder: str | None = None
    is_due: Callable[[StoredObject], bool] | None = None
    is_opened: Callable[[], bool] | None = None

    @classmethod
    def of_files(
        cls,
        store: Store,
        files: Sequence[StoredObject],
        reason: Reason,
        *,
        pipeline: str | None = None,
        backfill_id: str | None = None,
        batch_number: int | None = None,
        is_opened: Callable[[], bool] | None = None,
    ) -> Self:
        """Single files."""
        return cls(
            store=store,
            pipeline=pipeline,
            backfill_id=backfill_id,
            batch_number=batch_number,
            reason=reason,
            objects=len(files),
            size_bytes=sum(each.size_bytes for each in files),
            keys=tuple(each.key for each in files),
            is_opened=is_opened,
        )

    @property
    def url(self) -> str:
        """URL of the folder, or of the first file."""
        return join_url(self.store.url, self.folder or self.keys[0])

    @property
    def place_url(self) -> str:
        """URL of the place: the folder of a checkpoint's batches, or the sink's path."""
        number = "" if self.batch_number is None else str(self.batch_number)
        parent = self.url.rpartition("/")[0] if self.folder is None else self.url
        return parent.removesuffix(f"/batch={number}").removesuffix(f"/{number}")

    def delete(self) -> int:
        """Deletes the files that are still there; returns their number. After an error the next sweep goes on."""
        if self.is_opened is not None and self.is_opened():
            return 0
        listed = () if self.folder is None else self.store.list(self.folder)
        keys = [*self.keys, *(each.key for each in listed if self.is_due is None or self.is_due(each))]
        self.store.delete(keys)
        unfinished = 0
        if self.folder is not None and self.reason is Reason.ENDED:
            # A listing does not show what a killed writer began, and of an ended batch nobody writes any more.
            unfinished = self.store.remove_unfinished(self.folder, is_over=True)
        return len(keys) + unfinished
