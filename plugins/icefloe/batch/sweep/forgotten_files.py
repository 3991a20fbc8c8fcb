"""The files of a checkpoint that is gone: its shuffle folder, and the batches that it staged for a sink."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from icefloe.batch.context.folder_marker import MARKER, FolderMarker
from icefloe.batch.sweep.leftover import Leftover, Reason
from icefloe.batch.sweep.shuffle_folders import ShuffleFolders
from icefloe.batch.sweep.shuffle_listing import Counted, Folder
from icefloe.iceberg.history.pins import PinNames
from icefloe.pipeline.url import url_below
from icefloe.sinks.claim import CLAIM, load_claim
from icefloe.storage.store import Store


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

        The shuffle folder comes last, because its name leads to the staged batches.

        Raises:
            IcefloeError: the storage cannot be read, or a document in it is damaged.
        """
        staged = self._staged()
        found = [*self.names.values()] if staged is None else [staged, *self.names.values()]
        if any(counted.old_objects < counted.objects for counted in found):
            return
        if staged is not None:
            yield Leftover(
                store=self._staging,
                pipeline=self.folder.pipeline,
                reason=Reason.FORGOTTEN,
                objects=staged.objects,
                size_bytes=staged.size_bytes,
                folder=self._staged_key,
                is_due=self.folders.is_old,
                is_opened=lambda: not self._is_claimed,
                # Without the claim nobody knows whose the rest is.
                last=f"{self._staged_key}/{CLAIM}",
            )
        yield Leftover(
            store=self.folders.shuffle,
            pipeline=self.folder.pipeline,
            reason=Reason.FORGOTTEN,
            objects=sum(counted.objects for counted in self.names.values()),
            size_bytes=sum(counted.size_bytes for counted in self.names.values()),
            folder=self.folder.key,
            is_due=self.folders.is_old,
            # Without its marker the rest would be told of as files of an earlier release.
            last=f"{self.folder.key}/{MARKER}",
        )

    def notes(self) -> Iterator[str]:
        """The things of the pipeline that a sweep leaves to people."""
        branch = PinNames.of(self.folder.pipeline, self.folder.checkpoint_id or "").branch
        yield (
            f"if pipeline {self.folder.pipeline} had pin: true, its table keeps snapshots by branch {branch} and tags "
            f"{branch}_...: drop them"
        )
        marker = FolderMarker.load(self.folders.shuffle.child(self.folder.key))
        if marker is not None and marker.changes_url is not None:
            yield (
                f"the changelog {marker.changes_url} of pipeline {self.folder.pipeline} stays: delete it if nobody "
                "reads it any more"
            )

    @property
    def _staging(self) -> Store:
        return self.folders.open_place(url_below(self.folders.storage_url, "staged"))

    @property
    def _staged_key(self) -> str:
        """The folder of staged batches below ``staged/``; a backfill has its own in that of its pipeline."""
        marker = FolderMarker.load(self.folders.shuffle.child(self.folder.key))
        if marker is None or marker.backfill_id is None:
            return self.folder.pipeline
        return f"{self.folder.pipeline}/_backfills/{marker.backfill_id}"

    @property
    def _is_claimed(self) -> bool:
        """True if the folder of staged batches belongs to this checkpoint, and not to one that was made again."""
        claim = load_claim(self._staging.child(self._staged_key))
        return claim is not None and claim.owner == self.folder.checkpoint_id

    def _staged(self) -> Counted | None:
        """The staged batches; None if there are none of this checkpoint."""
        if not self._is_claimed:
            return None
        counted = Counted()
        for stored in self._staging.list(self._staged_key):
            counted.add(stored, self.folders.cutoff, is_file=False)
        return counted
