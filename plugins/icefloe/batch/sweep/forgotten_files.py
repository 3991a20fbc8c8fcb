"""The files of a checkpoint that is gone: its shuffle folder, and the batches that it staged for a sink."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

from icefloe.batch.context.folder_marker import MARKER, FolderMarker
from icefloe.batch.sweep.found_checkpoint import PipelinePlaces
from icefloe.batch.sweep.leftover import Leftover, Reason
from icefloe.batch.sweep.shuffle_folders import ShuffleFolders
from icefloe.batch.sweep.shuffle_listing import Counted, Folder
from icefloe.iceberg.history.pins import PinNames
from icefloe.pipeline.url import url_below
from icefloe.sinks.claim import CLAIM, load_claim
from icefloe.storage.store import Store, StoredObject


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

        The shuffle folder comes last, because its name leads to the staged batches. A backfill among them stays if its
        checkpoint is not gone: a new start of the pipeline has it, for backfills claim only their own folders.

        Raises:
            IcefloeError: the storage cannot be read, or a document in it is damaged.
        """
        seen = cache(self._places.urls)
        # For the deletion, which asks again. A marker that led the survey to a place may be deleted before it.
        known = cache(lambda: seen() | self._places.urls())
        staged = self._staged(cache(partial(self._is_living, seen)))
        backfill_id = self._backfill_id
        found = [*self.names.values()] if staged is None else [staged, *self.names.values()]
        if any(counted.old_objects < counted.objects for counted in found):
            return
        if staged is not None:
            yield Leftover(
                store=self._staging,
                pipeline=self.folder.pipeline,
                backfill_id=backfill_id,
                reason=Reason.FORGOTTEN,
                objects=staged.objects,
                size_bytes=staged.size_bytes,
                folder=self._staged_key,
                is_due=partial(self._is_due, cache(partial(self._is_living, known))),
                is_opened=lambda: not self._is_claimed,
                # Without the claim nobody knows whose the rest is.
                last=f"{self._staged_key}/{CLAIM}",
            )
        yield Leftover(
            store=self.folders.shuffle,
            pipeline=self.folder.pipeline,
            backfill_id=backfill_id,
            reason=Reason.FORGOTTEN,
            objects=sum(counted.objects for counted in self.names.values()),
            size_bytes=sum(counted.size_bytes for counted in self.names.values()),
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
        backfill_id = self._backfill_id
        return self.folder.pipeline if backfill_id is None else f"{self.folder.pipeline}/_backfills/{backfill_id}"

    @property
    def _backfill_id(self) -> str | None:
        marker = FolderMarker.load(self.folders.shuffle.child(self.folder.key))
        return None if marker is None else marker.backfill_id

    @property
    def _places(self) -> PipelinePlaces:
        return PipelinePlaces(
            pipeline=self.folder.pipeline,
            shuffle=self.folders.shuffle,
            storage_url=self.folders.storage_url,
            open_place=self.folders.open_place,
            environ=self.folders.environ,
            coordination=self.folders.coordination,
        )

    @property
    def _is_claimed(self) -> bool:
        """True if the folder of staged batches belongs to this checkpoint, and not to one that was made again."""
        claim = load_claim(self._staging.child(self._staged_key))
        return claim is not None and claim.owner == self.folder.checkpoint_id

    def _is_living(self, urls: Callable[[], set[str]], backfill_id: str) -> bool:
        """True if the folder of a backfill's staged batches belongs to a checkpoint that is at one of some places."""
        claim = load_claim(self._staging.child(f"{self.folder.pipeline}/_backfills/{backfill_id}"))
        return claim is not None and self._places.has_backfill(backfill_id, claim.owner, urls())

    def _is_due(self, is_living: Callable[[str], bool], stored: StoredObject) -> bool:
        """True for an old file that is not of a living backfill."""
        return self.folders.is_old(stored) and not self._is_of_living(is_living, stored)

    def _is_of_living(self, is_living: Callable[[str], bool], stored: StoredObject) -> bool:
        """True for a file of a living backfill of the forgotten pipeline."""
        prefix = f"{self.folder.pipeline}/_backfills/"
        backfill_id, separator, _ = stored.key.removeprefix(prefix).partition("/")
        return stored.key.startswith(prefix) and separator != "" and is_living(backfill_id)

    def _staged(self, is_living: Callable[[str], bool]) -> Counted | None:
        """The staged batches; None if there are none of this checkpoint."""
        if not self._is_claimed:
            return None
        counted = Counted()
        for stored in self._staging.list(self._staged_key):
            if not self._is_of_living(is_living, stored):
                counted.add(stored, self.folders.cutoff, is_file=False)
        return counted
