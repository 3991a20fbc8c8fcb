"""The files of a checkpoint that is gone: its shuffle folder, and the batches that it staged for a sink."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from icefloe.batch.context.folder_marker import MARKER, FolderMarker
from icefloe.batch.sweep.leftover import Leftover, Reason
from icefloe.batch.sweep.shuffle_folders import ShuffleFolders
from icefloe.batch.sweep.shuffle_listing import Counted, Folder
from icefloe.iceberg.history.pins import PinNames
from icefloe.pipeline.url import url_below
from icefloe.sinks.manifest import CLAIM, load_claim
from icefloe.storage.store import Store, StoredObject

_BACKFILLS = "_backfills"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenFiles:
    """The files of one checkpoint that is gone.

    Attributes:
        folders: all folders of the storage.
        folder: the shuffle folder of the checkpoint.
        names: its files as they were listed, by name in the folder.
    """

    folders: ShuffleFolders
    folder: Folder
    names: Mapping[str, Counted]

    def leftovers(self) -> Iterator[Leftover]:
        """The files that may go: all of them if nothing was written since the cutoff, otherwise none.

        What backfills staged has checkpoints of its own. A backfill's goes with its own shuffle folder, and whatever
        is left of others stays.

        Raises:
            IcefloeError: the storage cannot be read, or a document in it is damaged.
        """
        marker = self._marker
        backfill_id = None if marker is None else marker.backfill_id
        staged = _Staged(
            store=self.folders.open_place(url_below(self.folders.storage_url, "staged")),
            key=self.folder.pipeline + ("" if backfill_id is None else f"/{_BACKFILLS}/{backfill_id}"),
            checkpoint_id=self.folder.checkpoint_id,
        )
        counted = Counted()
        if staged.is_claimed():
            for stored in filter(staged.has, staged.store.list(staged.key)):
                counted.add(stored, self.folders.cutoff, is_file=False)
        if any(each.old_objects < each.objects for each in (counted, *self.names.values())):
            return
        if counted.objects:
            yield Leftover(
                store=staged.store,
                pipeline=self.folder.pipeline,
                backfill_id=backfill_id,
                reason=Reason.FORGOTTEN,
                objects=counted.objects,
                size_bytes=counted.size_bytes,
                folder=staged.key,
                is_due=lambda stored: self.folders.is_old(stored) and staged.has(stored),
                is_opened=lambda: not staged.is_claimed(),
                # Without the claim nobody knows whose the rest is.
                last=f"{staged.key}/{CLAIM}",
            )
        # Last, because its name leads to the staged batches.
        yield Leftover(
            store=self.folders.shuffle,
            pipeline=self.folder.pipeline,
            backfill_id=backfill_id,
            reason=Reason.FORGOTTEN,
            objects=sum(each.objects for each in self.names.values()),
            size_bytes=sum(each.size_bytes for each in self.names.values()),
            folder=self.folder.key,
            is_due=self.folders.is_old,
            # Without its marker nobody knows where the checkpoint of the rest was.
            last=f"{self.folder.key}/{MARKER}",
        )

    def notes(self) -> Iterator[str]:
        """The things of the pipeline that a sweep leaves to people."""
        branch = PinNames.of(self.folder.pipeline, self.folder.checkpoint_id).branch
        yield (
            f"if pipeline {self.folder.pipeline} had pin: true, its table keeps snapshots by branch {branch} and tags "
            f"{branch}_...: drop them"
        )
        marker = self._marker
        if marker is not None and marker.changes_url is not None:
            yield (
                f"the changelog {marker.changes_url} of pipeline {self.folder.pipeline} stays: delete it if nobody "
                "reads it any more"
            )

    @property
    def _marker(self) -> FolderMarker | None:
        return FolderMarker.load(self.folders.shuffle.child(self.folder.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staged:
    """The folder of the batches that a checkpoint staged, below ``staged/``."""

    store: Store
    key: str
    checkpoint_id: str

    def is_claimed(self) -> bool:
        """True if the folder belongs to this checkpoint, and not to one that was made again."""
        claim = load_claim(self.store.child(self.key))
        return claim is not None and claim.owner == self.checkpoint_id

    def has(self, stored: StoredObject) -> bool:
        return not stored.key.startswith(f"{self.key}/{_BACKFILLS}/")
