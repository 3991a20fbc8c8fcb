"""Files that nobody needs any more, and their deletion."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from icefloe.storage.keys import join_url
from icefloe.storage.store import Store, StoredObject

__all__ = ["Leftover"]


class Reason(StrEnum):
    """The reason why files may go."""

    ENDED = "the batch has ended"
    UNNAMED = "no manifest names them"
    OLD = "old, of no batch"
    FORGOTTEN = "old, the checkpoint is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Files that may be deleted: some keys, or a folder.

    Attributes:
        store: the place of the files.
        pipeline: its name, for people; None if the files do not say.
        batch_number: None if the files are of no batch.
        objects: number of the files, as the survey saw them; ``size_bytes`` are their bytes.
        keys: single files.
        folder: a key taken as a folder, which is listed again when it is deleted; None: only the keys.
        is_due: true for a file of the folder that may go.
        is_opened: asked right before the deletion, because a batch may have been opened since the survey; None: that
            does not matter.
        last: key of the file in the folder that is deleted after all others.
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
    is_due: Callable[[StoredObject], bool] = lambda _: True
    is_opened: Callable[[], bool] | None = None
    last: str | None = None

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
        """Deletes the files, and passes over those that are gone already. Returns the number of files deleted.

        Raises:
            IcefloeError: the store did not answer or denies the deletion. The next sweep goes on.
        """
        if self.is_opened is not None and self.is_opened():
            return 0
        listed = () if self.folder is None else self.store.list(self.folder)
        keys = [*self.keys, *(each.key for each in listed if self.is_due(each))]
        self.store.delete(key for key in keys if key != self.last)
        unfinished = 0
        if self.folder is not None and self.reason is Reason.ENDED:
            # A listing does not show what a killed writer began, and of an ended batch nobody writes any more.
            unfinished = self.store.remove_unfinished(self.folder, is_over=True)
        if self.last in keys:
            self.store.delete([self.last])
        return len(keys) + unfinished
